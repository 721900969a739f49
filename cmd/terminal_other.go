//go:build !unix

package cmd

import (
	"io"
	"os"
)

func terminalWidth(io.Writer) int { return 80 }

func moreToRead(*os.File) bool { return false }
