package main

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"
)

// bareLoop writes frames to n connections on this machine, group frames in one write, with gap between two rounds, and returns
// the CPU time of the writing thread: the least that a server can need.
func bareLoop(ctx context.Context, frames [][]byte, n, group int, gap time.Duration) (time.Duration, error) {
	conns, finish, err := discarders(n)
	if err != nil {
		return 0, errors.Join(err, finish())
	}
	used, err := loop(ctx, conns, frames, group, gap)
	return used, errors.Join(err, finish())
}

func loop(ctx context.Context, conns []net.Conn, frames [][]byte, group int, gap time.Duration) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadCPU()
	var buf []byte
	for i := 0; i < len(frames); i += group {
		buf = buf[:0]
		for _, f := range frames[i:min(i+group, len(frames))] {
			buf = append(buf, f...)
		}
		for _, c := range conns {
			if _, err := c.Write(buf); err != nil {
				return 0, err
			}
		}
		if err := pause(ctx, gap); err != nil {
			return 0, err
		}
	}
	return threadCPU() - began, nil
}

// discarders returns n connections whose peers discard everything. finish closes them and waits for the peers.
func discarders(n int) (conns []net.Conn, finish func() error, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, func() error { return nil }, err
	}
	var readers sync.WaitGroup
	finish = func() error {
		for _, c := range conns {
			_ = c.Close()
		}
		readers.Wait()
		return ln.Close()
	}
	for range n {
		reader, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return conns, finish, err
		}
		readers.Go(func() { // ends when finish closes the other end
			defer func() { _ = reader.Close() }()
			buf := make([]byte, 8<<10)
			for {
				if _, err := reader.Read(buf); err != nil {
					return
				}
			}
		})
		c, err := ln.Accept()
		if err != nil {
			_ = reader.Close()
			return conns, finish, err
		}
		conns = append(conns, c)
	}
	return conns, finish, nil
}
