//go:build unix

package stream

import (
	"math"

	"golang.org/x/sys/unix"
)

// descriptors is the limit of open files and sockets of this process. Go raises the soft limit to the hard one.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
