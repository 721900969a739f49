package child

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// Used returns the processor time that the program's process group has used, in ticks. It is for comparisons: what has ended no longer
// counts. It reports false where that is not known.
func (c *Child) Used() (ticks int64, known bool) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, group, ...
		if len(fields) < 13 || fields[2] != strconv.Itoa(c.PID()) {
			continue
		}
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		ticks, known = ticks+user+system, true
	}
	return ticks, known
}

// marked reports whether a living process has the mark.
func marked(pid, mark string) bool {
	env, err := os.ReadFile("/proc/" + pid + "/environ")
	return err == nil && bytes.Contains(env, []byte(mark))
}
