package bustest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/bus"
)

// Memory connects servers in one process, for tests.
type Memory struct {
	// Fault returns the disturbance of a datagram on its way to a receiver. It may be nil.
	Fault func() Fault

	mu      sync.Mutex // guards members
	members []*member
}

// Fault is a disturbance of a datagram.
type Fault struct {
	Lost, Doubled bool
	Delay         time.Duration
}

type member struct {
	of *Memory
	in chan []byte
}

// mostWaiting is how many datagrams wait for a receiver; more are lost.
const mostWaiting = 1000

// Join adds a server.
func (m *Memory) Join() bus.Bus {
	m.mu.Lock()
	defer m.mu.Unlock()
	joined := &member{m, make(chan []byte, mostWaiting)}
	m.members = append(m.members, joined)
	return joined
}

// Send implements bus.Bus.
func (m *member) Send(_ context.Context, datagram []byte) error {
	m.of.mu.Lock()
	members := slices.Clone(m.of.members)
	m.of.mu.Unlock()
	for _, to := range members {
		var fault Fault
		if m.of.Fault != nil {
			fault = m.of.Fault()
		}
		if fault.Lost {
			continue
		}
		to.deliver(slices.Clone(datagram), fault.Delay)
		if fault.Doubled {
			to.deliver(slices.Clone(datagram), fault.Delay)
		}
	}
	return nil
}

func (m *member) deliver(datagram []byte, delay time.Duration) {
	put := func() {
		select {
		case m.in <- datagram:
		default:
		}
	}
	if delay == 0 {
		put()
		return
	}
	time.AfterFunc(delay, put)
}

// Receive implements bus.Bus.
func (m *member) Receive(ctx context.Context) ([]byte, error) {
	select {
	case datagram := <-m.in:
		return datagram, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close implements bus.Bus. The server has left.
func (m *member) Close() error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.of.members = slices.DeleteFunc(m.of.members, func(other *member) bool { return other == m })
	return nil
}
