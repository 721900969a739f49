package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// secured is a TLS connection. It gives access to the socket below.
type secured struct {
	*tls.Conn
	below     net.Conn
	handshake time.Duration // limit for the whole handshake
	shaken    bool          // the handshake was tried; used by the goroutine that reads
}

func newSecured(c net.Conn, cfg *ListenerConfig) *secured {
	return &secured{Conn: tls.Server(c, cfg.TLS), below: c, handshake: cfg.Handshake}
}

// Read performs the handshake, with its own timeout, before the first read. A plain HTTP request gets an answer that names https.
func (s *secured) Read(p []byte) (int, error) {
	if s.shaken {
		return s.Conn.Read(p)
	}
	s.shaken = true
	ctx, cancel := context.WithTimeout(context.Background(), s.handshake)
	defer cancel()
	err := s.HandshakeContext(ctx)
	if err == nil {
		return s.Conn.Read(p)
	}
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && spokenPlainly(plain.RecordHeader[:]) {
		_ = plain.Conn.SetWriteDeadline(time.Now().Add(time.Second)) // its buffer is empty
		_, _ = io.WriteString(plain.Conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 49\r\n\r\nThis server speaks TLS here; ask it with https://")
	}
	return 0, err
}

// spokenPlainly reports whether a failed handshake begins like an HTTP request.
func spokenPlainly(head []byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"} {
		if strings.HasPrefix(string(head), method) {
			return true
		}
	}
	return false
}

// Gone reports whether the client has left.
func (s *secured) Gone() bool { return hungUp(s.below) }

// CloseWrite ends the output, of TLS and of the connection.
func (s *secured) CloseWrite() error {
	err := s.Conn.CloseWrite()
	if c, ok := s.below.(interface{ CloseWrite() error }); ok && err == nil {
		return c.CloseWrite()
	}
	return err
}

// TLS returns the state of the TLS connection, nil without TLS.
func (c *Conn) TLS() *tls.ConnectionState {
	s, ok := c.Conn.(*secured)
	if !ok {
		return nil
	}
	state := s.ConnectionState()
	return &state
}

// unsecured is the connection below TLS.
func unsecured(c net.Conn) net.Conn {
	if s, ok := c.(*secured); ok {
		return s.below
	}
	return c
}

// cutOff closes c without TLS's closing message, which could block.
func cutOff(c net.Conn) error { return unsecured(c).Close() }

// tcpOf is the socket of a connection that has one, else nil.
func tcpOf(c net.Conn) *net.TCPConn {
	tcp, _ := unsecured(c).(*net.TCPConn)
	return tcp
}

// rawOf returns the RawConn of the socket below, nil if there is none that can be probed.
func rawOf(c net.Conn) syscall.RawConn {
	if s, ok := unsecured(c).(syscall.Conn); ok && probing {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
