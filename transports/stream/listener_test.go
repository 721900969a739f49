package stream

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"
)

// fromAddress is a connection of a client with that address.
type fromAddress struct {
	net.Conn
	ip string
}

func (c fromAddress) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 1} }

// A client with few connections keeps them, silent ones too, while others open more than the server has room for.
func TestListener_ClosesThoseOfTheLargestAddress(t *testing.T) {
	t.Parallel()
	ln := NewListener(nil, ListenerConfig{Conns: 20, PerPeer: 20, Idle: time.Minute, Log: slog.New(slog.DiscardHandler)})
	connect := func(ip string) *Conn {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		go func() { _, _ = io.Copy(io.Discard, client) }() // ends with the connection
		return ln.admit(fromAddress{server, ip})
	}
	var honest []*Conn
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		honest = append(honest, connect(ip))
	}
	for range 50 {
		for _, ip := range []string{"10.1.0.1", "10.1.0.2"} {
			connect(ip)
		}
	}
	for _, c := range append(honest, connect("10.0.0.4")) {
		if _, open := ln.open[c.peer][c]; !open {
			t.Errorf("the connection of %s was closed", c.peer)
		}
	}
	if ln.n != 20 {
		t.Errorf("%d connections are open", ln.n)
	}
}
