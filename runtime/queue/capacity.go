package queue

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Carried returns how many runs this machine executes at once.
func Carried() int { return runsFor(Memory()) }

// CarriedBytes returns the total input bytes of the runs that this machine executes at once.
func CarriedBytes() int64 { return bytesFor(Memory()) }

// Memory returns how many bytes this process may use.
func Memory() int64 { return memory(os.DirFS("/")) }

// An executing run has its input in memory twice, decoded and in the request to a model, and the garbage collector leaves
// about as much again as garbage.
const (
	bytesAtLeast = 32 << 20
	bytesAtMost  = 48 << 20
)

// bytesFor returns the total input bytes of runs for so much memory.
func bytesFor(memory int64) int64 { return max(bytesAtLeast, min(bytesAtMost, memory/16)) }

// SaidBytes returns the total message bytes of the runs that this machine executes at once. Messages are in memory as they
// grow, as a whole, and in the rows that wait for a commit.
func SaidBytes() int64 { return max(2*bytesAtLeast, Memory()/8) }

// The needs of a live run. It costs 100 KiB, 300 KiB once it has written 200 tokens, and 1 MiB once its thread's ring is
// full. Cores are no limit: most runs wait for their models, and runs that do not are slower, as they would be in the queue.
const (
	bytesPerRun = 1 << 20
	runsAtLeast = 64
	runsAtMost  = 10_000
	unlimited   = math.MaxInt64
)

// runsFor returns how many runs so many bytes of memory carry.
func runsFor(memory int64) int {
	return int(max(runsAtLeast, min(memory/bytesPerRun, runsAtMost)))
}

// memory returns how many bytes this process may use: the least of GOMEMLIMIT, the machine's memory, and the limits of its control
// group and all groups above it. root is the file system. Without any limit, memory is unlimited.
func memory(root fs.FS) int64 {
	least := min(debug.SetMemoryLimit(-1), total(root))
	for _, group := range groups(root) {
		for _, limit := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
			text, err := fs.ReadFile(root, path.Join(group, limit))
			if err != nil {
				continue
			}
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil { // otherwise it is "max"
				least = min(least, n)
			}
		}
	}
	return least
}

// The directories where the trees of control groups are mounted: version 2 alone, beside version 1, and version 1.
const (
	cgroup2       = "sys/fs/cgroup"
	cgroup2Beside = "sys/fs/cgroup/unified"
	cgroup1       = "sys/fs/cgroup/memory"
)

// groups returns the directories of this process's control groups, with all groups above them. Those that are not in the mounted tree do
// not exist: a container may see the names of its host.
func groups(root fs.FS) []string {
	list := []string{cgroup2, cgroup2Beside, cgroup1}
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) { // such as 0::/system.slice or 4:memory:/system.slice
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, name, _ := strings.Cut(rest, ":")
		var mounts []string
		switch {
		case controllers == "":
			mounts = []string{cgroup2, cgroup2Beside}
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			mounts = []string{cgroup1}
		}
		for name = path.Clean("/" + name); name != "/"; name = path.Dir(name) {
			for _, mount := range mounts {
				list = append(list, path.Join(mount, name))
			}
		}
	}
	return list
}

// total returns the machine's memory.
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
