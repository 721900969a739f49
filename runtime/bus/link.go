package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sendEvery = 10 * time.Millisecond // the least pause between two datagrams
	beatEvery = time.Second           // the longest one
	hearsFor  = 2 * time.Second       // how old the last own datagram that has come back may be
	wantedFor = 3 * time.Second       // how long a want that is not repeated counts
	sendTime  = 3 * time.Second       // how long sending a datagram may take
	mostWants = 100_000
)

// Link is a server's access to the bus. It sends hints together, at most 100 times a second, and collects those of other servers. Its
// methods do not block, except Run. A nil Link sends nothing and hears nothing.
type Link struct {
	bus   Bus
	name  string
	alone func() bool
	began time.Time

	sent, lost atomic.Int64

	signal  chan struct{} // has a value when out has hints
	arrived chan struct{} // has a value when in has hints

	mu      sync.Mutex // guards the fields below
	out, in Hints
	heard   time.Time       // when the newest own datagram that has come back was sent
	wanted  [kinds]interest // in news of a kind
}

// interest has the threads and lists of which other servers want news.
type interest struct {
	keys map[int64]time.Time // until when
	all  time.Time           // until when they want news of all
}

// note replaces the wishes of a server.
func (i *interest) note(keys *Keys, now time.Time) {
	if keys.All {
		i.all = now.Add(wantedFor)
	}
	if len(i.keys) >= mostWants {
		clear(i.keys)
	}
	for key := range keys.keys {
		if i.keys == nil {
			i.keys = make(map[int64]time.Time)
		}
		i.keys[key] = now.Add(wantedFor)
	}
}

// has reports whether a server wants news of a key.
func (i *interest) has(key int64) bool {
	now := time.Now()
	until, ok := i.keys[key]
	wanted := now.Before(until) || now.Before(i.all)
	if ok && !wanted {
		delete(i.keys, key)
	}
	return wanted
}

// Stats are a Link's counts since it began, and its state.
type Stats struct {
	Sent int64 // datagrams
	Lost int64 // failures to send or to receive
	Deaf bool  // other servers live, and datagrams do not arrive
}

// NewLink returns the link of a server with a name that no other has. It sends nothing while alone reports that there are no others. Run
// begins to use the bus. Without a bus NewLink returns nil.
func NewLink(b Bus, name string, alone func() bool) *Link {
	if b == nil {
		return nil
	}
	return &Link{
		bus: b, name: name, alone: alone, began: time.Now(), signal: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
	}
}

// Run sends and receives until ctx is done. Then it sends the remaining hints and closes the bus. Each second it sends the others the threads and
// lists this server wants news of: wants returns up to most keys for the kinds Want and Watch.
func (l *Link) Run(ctx context.Context, wants func(kind Kind, most int) []int64) {
	if l == nil {
		return
	}
	defer func() { _ = l.bus.Close() }()
	var receiving sync.WaitGroup
	receiving.Go(func() { l.receive(ctx) })
	defer receiving.Wait()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for first := true; ; first = false {
		due := first // the others learn at once what this server wants, and this one whether it hears
		if !first {
			select {
			case <-ctx.Done():
				_ = l.send(ctx, false)
				return
			case <-beat.C:
				due = true
			case <-l.signal:
			}
		}
		if due {
			for _, kind := range []Kind{Want, Watch} {
				for _, key := range wants(kind, mostKeys+1) {
					l.Hint(kind, key)
				}
			}
		}
		pause := sendEvery
		if err := l.send(ctx, due); err != nil {
			pause = beatEvery / 4
		}
		wait(ctx, pause)
	}
}

// send sends the pending hints, or with beat a datagram in any case. It keeps the hints when that fails.
func (l *Link) send(ctx context.Context, beat bool) error {
	l.mu.Lock()
	d := datagram{from: l.name, sent: int64(time.Since(l.began)), hints: l.out}
	l.out = Hints{}
	l.mu.Unlock()
	if l.alone() || !beat && d.hints.empty() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime) // what a server that stops has to tell is sent
	defer cancel()
	if err := l.bus.Send(ctx, d.encode()); err != nil {
		l.lost.Add(1)
		l.mu.Lock()
		l.out.merge(&d.hints)
		l.mu.Unlock()
		wake(l.signal)
		return err
	}
	l.sent.Add(1)
	return nil
}

func (l *Link) receive(ctx context.Context) {
	for ctx.Err() == nil {
		b, err := l.bus.Receive(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.lost.Add(1)
				l.cut()
				wait(ctx, beatEvery/4)
			}
			continue
		}
		if d, ok := decode(b); ok {
			l.take(&d)
		}
	}
}

// cut notes that datagrams may have been lost.
func (l *Link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Time{}
}

// take notes a datagram that has arrived.
func (l *Link) take(d *datagram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if d.from == l.name {
		deaf := now.Sub(l.heard) > hearsFor
		if at := l.began.Add(time.Duration(d.sent)); at.After(l.heard) && !at.After(now) {
			l.heard = at
		}
		if deaf && now.Sub(l.heard) <= hearsFor { // others may have sent something until now
			for _, kind := range []Kind{Look, Changed, Revoked, Signal} {
				l.in[kind] = Keys{All: true}
			}
			wake(l.arrived)
		}
		return
	}
	l.wanted[Look].note(&d.hints[Want], now)
	l.wanted[Changed].note(&d.hints[Watch], now)
	d.hints[Want], d.hints[Watch] = Keys{}, Keys{}
	if !d.hints.empty() {
		l.in.merge(&d.hints)
		wake(l.arrived)
	}
}

// Hint sends a key to the other servers soon.
func (l *Link) Hint(kind Kind, key int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.out[kind].add(key)
	l.mu.Unlock()
	wake(l.signal)
}

// HintAll hints at all keys of a kind.
func (l *Link) HintAll(kind Kind) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.out[kind] = Keys{All: true}
	l.mu.Unlock()
	wake(l.signal)
}

// News hints that a thread's log has news, if another server wants the thread.
func (l *Link) News(thread int64) { l.announce(Look, thread) }

// Changed hints that a list has changed, if another server has viewers of it.
func (l *Link) Changed(list int64) { l.announce(Changed, list) }

func (l *Link) announce(kind Kind, key int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	wanted := l.wanted[kind].has(key)
	if wanted {
		l.out[kind].add(key)
	}
	l.mu.Unlock()
	if wanted {
		wake(l.signal)
	}
}

// Hears reports whether datagrams arrive: one that this server has sent in the last seconds has come back.
func (l *Link) Hears() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard) <= hearsFor
}

// Arrived returns a channel that has a value when hints have arrived, which Take returns.
func (l *Link) Arrived() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.arrived
}

// Take returns the hints of others that have arrived since the last call.
func (l *Link) Take() Hints {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.in
	l.in = Hints{}
	return h
}

// Stats returns the link's counts and state.
func (l *Link) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	return Stats{Sent: l.sent.Load(), Lost: l.lost.Load(), Deaf: !l.alone() && !l.Hears()}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
