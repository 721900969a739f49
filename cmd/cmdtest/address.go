package cmdtest

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// Address returns a loopback address for a program to listen on. The test owns its port until it ends, also while the program is down.
func Address(tb testing.TB) string {
	tb.Helper()
	port, release, err := Port()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(release)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// Port returns a port of 127.0.0.1 that the kernel gives to nobody else until release is called: a socket holds it that does not listen,
// beside which a program can listen that asks for this very port. Kernels other than Linux refuse that, and the port is merely free.
func Port() (port int, release func(), err error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	err = errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, nameErr := syscall.Getsockname(fd)
	if err = errors.Join(err, nameErr); err != nil || runtime.GOOS != "linux" {
		_ = syscall.Close(fd)
		fd = -1
	}
	if err != nil {
		return 0, nil, os.NewSyscallError("bind", err)
	}
	return name.(*syscall.SockaddrInet4).Port, func() { _ = syscall.Close(fd) }, nil
}
