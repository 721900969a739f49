//go:build !unix

package cmd

import "io"

func terminalWidth(io.Writer) int { return 80 }
