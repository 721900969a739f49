//go:build !unix

package child

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func terminateGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // there is no SIGTERM

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func terminated(*os.ProcessState) bool { return false }
