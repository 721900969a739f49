package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpu returns the CPU time that a process has used, 0 if the process has ended.
func cpu(pid int) time.Duration {
	return clock(int32(^pid<<3 | 2)) // the kernel's name for a process's clock
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// rss returns the memory of a process in bytes.
func rss(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// written returns how many bytes a process has written to disks.
func written(pid int) (n int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if _, rest, ok := strings.Cut(string(text), "\nwrite_bytes: "); ok {
		_, _ = fmt.Sscan(rest, &n)
	}
	return n
}

// files returns the number of open descriptors of a process.
func files(pid int) int {
	d, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(-1)
	return len(names)
}

// parent returns the pid of a process's parent, 0 if there is no such process.
func parent(pid int) int { return stat(strconv.Itoa(pid)).parent }

// familyCPU returns the CPU time of a process and its children, living and ended, 0 if there is no such process.
func familyCPU(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	of := stat(strconv.Itoa(pid))
	sum := of.own + of.ended
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if child := stat(name); child.parent == pid {
			sum += child.own
		}
	}
	return sum
}

// status has figures of a process from the kernel.
type status struct {
	parent     int
	own, ended time.Duration // CPU time, also of children that have ended
}

func stat(pid string) (s status) {
	text, _ := os.ReadFile("/proc/" + pid + "/stat") // other names have no such file
	_, rest, ok := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 15 {
		return s
	}
	ticks := func(at int) time.Duration {
		n, _ := strconv.ParseInt(f[at], 10, 64)
		return time.Duration(n) * time.Second / 100 // USER_HZ
	}
	s.parent, _ = strconv.Atoi(f[1])
	s.own, s.ended = ticks(11)+ticks(12), ticks(13)+ticks(14)
	return s
}
