//go:build !unix

package stream

import "math"

// descriptors is the limit of open files and sockets of this process, which is unknown here.
func descriptors() int { return math.MaxInt32 }
