//go:build unix

package cmd

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth returns the width of the terminal w in characters, 80 if unknown.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 1 {
			return int(size.Col)
		}
	}
	return 80
}

// moreToRead reports whether another line is available, or arrives sooner than a person could type one.
func moreToRead(terminal *os.File) bool {
	const pause = 20 // milliseconds
	ready := []unix.PollFd{{Fd: int32(terminal.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(ready, pause)
	return err == nil && n == 1 && ready[0].Revents&unix.POLLIN != 0
}
