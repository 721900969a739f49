//go:build unix

package stream

import (
	"math"

	"golang.org/x/sys/unix"
)

// descriptors is how many files and sockets this process may have open. Go has raised it as far as it goes.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
