package stream

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestConnectionIdleBehindAStreamEndsAtOnce stops a listener of which a client keeps a connection whose stream has ended.
func TestConnectionIdleBehindAStreamEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		ln := NewListener(nil, ListenerConfig{Idle: time.Minute, Serve: func(c net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			_, _ = c.Read(make([]byte, 1))
			ended <- time.Now()
			_ = c.Close()
		}})
		client, server := net.Pipe()
		defer func() { _ = client.Close() }()
		Own(ln.Adopt(server)).serveNext()
		synctest.Wait()
		stopped := time.Now()
		ln.Hurry()
		if took := (<-ended).Sub(stopped); took != 0 {
			t.Errorf("the connection was closed after %v", took)
		}
	})
}

// TestNewConnectionHasTimeForItsRequest stops a listener when a client has connected and its request is on the way.
func TestNewConnectionHasTimeForItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := NewListener(nil, ListenerConfig{Idle: time.Minute})
		client, server := net.Pipe()
		defer func() { _ = client.Close() }()
		c := ln.admit(server)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		ln.Hurry()
		go func() { // ends with its write
			<-time.After(hurry / 2)
			_, _ = client.Write([]byte("GET"))
		}()
		if n, err := c.Read(make([]byte, 3)); n != 3 {
			t.Errorf("read %d bytes, %v", n, err)
		}
		_ = c.Close()
	})
}
