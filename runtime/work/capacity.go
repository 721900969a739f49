package work

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
)

// Carried is how many runs this machine executes at once.
func Carried() int { return runsFor(goruntime.GOMAXPROCS(0), Memory()) }

// CarriedBytes is how much the runs that this machine executes at once may be asked together.
func CarriedBytes() int64 { return bytesFor(Memory()) }

// Memory is how many bytes this process may use.
func Memory() int64 { return memory(os.DirFS("/")) }

// What is asked of a run is in memory twice while it is at work, decoded and as it goes to a model, and the garbage collector lets
// as much lie about again.
const (
	bytesAtLeast = 32 << 20
	bytesAtMost  = 48 << 20
)

// bytesFor is how much runs may be asked with so much memory.
func bytesFor(memory int64) int64 { return max(bytesAtLeast, min(bytesAtMost, memory/16)) }

// SaidBytes is how much of messages the runs that this machine executes at once may make together. They are in memory as they grow,
// as a whole, and in what waits to be written.
func SaidBytes() int64 { return max(2*bytesAtLeast, Memory()/8) }

// What a live run needs. It costs 100 KiB, 300 once it has written 200 tokens, and 1 MiB when it has written so much that
// its thread's ring is full; 20 tokens a second, as many as people read, are 0.6 ms of a core.
const (
	runsPerCore = 1000
	bytesPerRun = 1 << 20
	runsAtLeast = 64
	unlimited   = math.MaxInt64
)

// runsFor is how many runs so many cores and bytes of memory carry.
func runsFor(cores int, memory int64) int {
	return int(max(runsAtLeast, min(int64(runsPerCore*cores), memory/bytesPerRun)))
}

// memory returns how many bytes this process may use: the least of what GOMEMLIMIT, its control group and the machine
// allow. root is the file system. Where nothing says so, memory has no bound.
func memory(root fs.FS) int64 {
	least := min(debug.SetMemoryLimit(-1), total(root))
	for _, file := range []string{
		path.Join("sys/fs/cgroup", group(root), "memory.max"),
		"sys/fs/cgroup/memory.max",
		"sys/fs/cgroup/memory/memory.limit_in_bytes",
	} {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil { // else it is "max"
			least = min(least, n)
		}
	}
	return least
}

// group is the path of this process's control group.
func group(root fs.FS) string {
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range bytes.Lines(text) {
		if name, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			return string(bytes.TrimSpace(name))
		}
	}
	return ""
}

// total is the machine's memory.
func total(root fs.FS) int64 {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "MemTotal:" {
			if kib, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return unlimited
}
