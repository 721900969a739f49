// Package bus connects the servers of a cluster beside the database, so that each soon knows what concerns it. It carries hints: a hint
// may be lost, late or doubled, and is never believed. It only makes its receiver read the database earlier than it would anyway.
package bus

import (
	"context"
	"errors"
)

// Bus carries datagrams between servers. Drivers are Memory.Join here, NOTIFY of PostgreSQL in package storage, and package natsbus.
type Bus interface {
	// Send sends a datagram of up to MaxBytes bytes of printable ASCII to all servers, this one included. It blocks until the datagram
	// is on its way.
	Send(ctx context.Context, datagram []byte) error
	// Receive returns the next datagram, waiting for it. After any error but ctx's, datagrams may have been lost, and the caller
	// calls it again later. One goroutine calls it at a time.
	Receive(ctx context.Context) ([]byte, error)
	// Close closes the bus's connections.
	Close() error
}

// MaxBytes is the size of the largest datagram: NOTIFY of PostgreSQL takes fewer than 8000 bytes.
const MaxBytes = 7900

// ErrCut means that datagrams may have been lost.
var ErrCut = errors.New("datagrams may have been lost")
