package main

import "syscall"

// memory returns a folder in memory with room for the tests' files, which may be programs, or "". Such a folder may hold more than the
// machine has.
func memory() string {
	const folder, enough = "/dev/shm", 6 << 30
	var fs syscall.Statfs_t
	var machine syscall.Sysinfo_t
	if syscall.Statfs(folder, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < enough || fs.Flags&syscall.MS_NOEXEC != 0 ||
		syscall.Sysinfo(&machine) != nil || machine.Freeram*uint64(machine.Unit) < enough {
		return ""
	}
	return folder
}
