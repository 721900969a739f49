package child

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// killKin kills every process with the mark in its environment: the program's descendants, including orphans outside its
// process group and session. It repeats until it finds none, because processes can fork during the search.
func killKin(mark string) {
	for until := time.Now().Add(linger); killMarked(mark) && time.Now().Before(until); {
		<-time.After(5 * time.Millisecond)
	}
}

// killMarked is one pass of killKin. It reports whether it found a process.
func killMarked(mark string) (found bool) {
	proc, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !marked(name, mark) {
			continue
		}
		found = true
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if marked(name, mark) { // otherwise the pid was reused
			_ = p.Kill()
		}
		_ = p.Release()
	}
	return found
}

// marked reports whether a living process has the mark.
func marked(pid, mark string) bool {
	env, err := os.ReadFile("/proc/" + pid + "/environ")
	return err == nil && bytes.Contains(env, []byte(mark))
}
