//go:build unix

package cmd

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth returns how many characters fit in a line of the terminal w, 80 when it does not tell.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 1 {
			return int(size.Col)
		}
	}
	return 80
}
