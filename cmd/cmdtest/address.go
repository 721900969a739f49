package cmdtest

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Address returns a free address of the loopback interface. See [Port].
func Address() string { return fmt.Sprint("127.0.0.1:", Port()) }

// Port returns a free port for a program, which gets it again after a restart: kernels choose higher ports for connections and for
// programs that do not care.
func Port() int {
	for {
		port := 10_000 + rand.N(20_000)
		if ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = ln.Close()
			return port
		}
	}
}
