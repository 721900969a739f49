package child

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// killKin kills what has the mark in its environment, as everything has that the program has started: also what has left its group and
// its session, and was orphaned. What had begun to start something else is looked for again.
func killKin(mark string) {
	for until := time.Now().Add(linger); killMarked(mark) && time.Now().Before(until); {
		time.Sleep(5 * time.Millisecond)
	}
}

// killMarked is killKin once. It reports whether it has found something.
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
		if marked(name, mark) { // else the pid went to another before it was found
			_ = p.Kill()
		}
		_ = p.Release()
	}
	return found
}

// marked reports whether a process that has not ended has the mark.
func marked(pid, mark string) bool {
	env, err := os.ReadFile("/proc/" + pid + "/environ")
	return err == nil && bytes.Contains(env, []byte(mark))
}
