package stream

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestConnectionIdleBehindAStreamEndsAtOnce stops a listener of which a client keeps a connection whose stream has ended.
func TestConnectionIdleBehindAStreamEndsAtOnce(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// TestWriter_SendsNoPingInsideAnEvent has a client take a part of an event and then nothing for as long as a write may take: the rest
// of the event is still to come when the next ping is due.
func TestWriter_SendsNoPingInsideAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := NewSet(Config{Ping: time.Second, WriteTimeout: 3 * time.Second})
		client, server := net.Pipe()
		defer func() { _ = client.Close() }()
		w := &Writer{set: set, duplex: true}
		w.setUp(server, func(error) {}, &set.cfg)
		w.keepAlive = []byte("ping")
		written := make(chan error)
		go func() { written <- w.Batch(func() { _, _ = w.WriteString("an event") }) }() // ends with its timeout
		if _, err := client.Read(make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		if err := <-written; !errors.Is(err, ErrSlow) {
			t.Fatalf("the write ended with %v", err)
		}
		w.visit(new(probe), time.Now().Add(time.Minute))
		_ = client.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := client.Read(make([]byte, 4)); n > 0 {
			t.Errorf("the client reads %d bytes, %v", n, err)
		}
		_ = server.Close()
	})
}
