// Package cmdtest builds the programs that tests start as processes, and finds addresses for them.
package cmdtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const module = "github.com/batonrun/baton"

// Variable names the environment variable with the folder of programs that are built already.
const Variable = "BATON_TEST_PROGRAMS"

// NoSuspects are linker's flags for a server that takes over at once the runs whose server was killed within a second of their claims.
const NoSuspects = "-X " + module + ".calmFor=-1s"

// Build returns a folder with programs, such as "cmd/baton", and a function that removes it. It builds them, or returns the folder of
// Variable, which has all that any test asks for.
func Build(programs ...string) (dir string, remove func(), err error) {
	if dir := os.Getenv(Variable); dir != "" {
		return dir, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "baton-programs-"); err != nil {
		return "", nil, err
	}
	args := []string{"build", "-ldflags=-w " + NoSuspects, "-o", dir}
	for _, program := range programs {
		args = append(args, module+"/"+program)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
