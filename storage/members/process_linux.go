package members

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// thisProcess identifies this process over all machines and restarts: the machine's boot, the namespaces of its number
// and start time, and these two. It is "" if they cannot be read.
var thisProcess = sync.OnceValue(func() string {
	place, err := placeOfProcesses()
	if err != nil {
		return ""
	}
	stat, err := statOf(os.Getpid())
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %s", place, os.Getpid(), stat.start)
})

// ended reports whether a process is known to have ended. It only knows processes of its own machine and namespaces.
func ended(process string) bool {
	place, err := placeOfProcesses()
	rest, here := strings.CutPrefix(process, place+" ")
	if err != nil || !here {
		return false
	}
	number, start, _ := strings.Cut(rest, " ")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 0 {
		return false
	}
	// /proc may hide other users' processes, so do not use it here.
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := statOf(pid)
	return err == nil && (stat.start != start || stat.dead)
}

// placeOfProcesses names where a process number and a start mean one process.
func placeOfProcesses() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	clock, err := os.Readlink("/proc/self/ns/time")
	if errors.Is(err, os.ErrNotExist) { // before Linux 5.6 there is one clock
		clock, err = "time", nil
	}
	return strings.TrimSpace(string(boot)) + " " + pids + " " + clock, err
}

// stat is a process's entry in /proc.
type stat struct {
	start string // in clock ticks since boot
	dead  bool   // it only waits for its parent to take note
}

func statOf(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The program's name, in parentheses, may hold anything. State is the third field, the start the 22nd.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return stat{}, errors.New("the process has no start")
	}
	return stat{start: fields[19], dead: fields[0] == "Z" || fields[0] == "X"}, nil
}
