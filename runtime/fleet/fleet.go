// Package fleet tracks the other instances of a cluster: which are alive, and which agents and tools they can execute. This information is some
// seconds old. It only decides whether a run that this instance cannot execute waits for another one, and whether a run is handed over.
package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/data"
)

const (
	// tellEach is the shortest time between two descriptions by an instance.
	tellEach = 3 * time.Second
	// maxAbout is the largest description of an instance, in bytes. The offer of one with more is not sent.
	maxAbout = 1 << 20
	// quietFor is how long an instance has seen no other until it works for itself. It has looked at the last writes of the others by then.
	quietFor = 5 * time.Second
	// aloneFor is how long a look that has seen no other counts.
	aloneFor = 3 * time.Second
	// aloneEach is the number of looks of which one reads the descriptions of servers while there is no other.
	aloneEach = 10
)

// Config configures a Fleet.
type Config struct {
	Shared   bool // other instances may write the database
	Members  data.Members
	Queue    data.Queue
	Store    data.Reader
	Instance string // this one
	Identity Identity
	Log      *slog.Logger
	Link     *bus.Link             // to the others
	Gone     time.Duration         // how long no instance has offered a run until the run fails
	Plugins  func() *host.Registry // that this instance offers now
	Load     func() Load           // of this instance now
	Stopping func() bool           // this instance stops
	Wake     func()                // a run of the queue may begin here after all
}

// Fleet is this instance and the others of its cluster.
type Fleet struct {
	cfg        Config
	aloneUntil atomic.Int64 // until when this instance knows that no other lives
	lookedAt   atomic.Int64 // when the last look at all logs has begun
	looks      int          // of Watch, which alone uses it, and quiet
	quiet      time.Time    // since when looks have seen no other

	unlinked context.Context // done once the last hints are to be sent
	unlink   context.CancelFunc
	linking  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	counts  Counts
	servers []Server           // ordered by id, also this one
	known   map[string]*Server // descriptions, by their hashes
	sent    string             // the hash of the description that this instance has sent
	load    Load               // as it was sent
	sentAt  time.Time
	// needs has the nodes of runs that were started with workflows which this instance has no more, or has with others. nodesRead counts
	// those that were read since the last sweep.
	needs     map[int64][]plugins.Node
	nodesRead int
	// missing has the runs that no instance may execute, and since when; next is the one that a sweep fills.
	missing, next map[int64]absence
}

// New returns the fleet as an instance knows it before it has looked. Hints are sent until ctx is done.
func New(ctx context.Context, cfg Config) *Fleet {
	f := &Fleet{cfg: cfg, known: make(map[string]*Server), needs: make(map[int64][]plugins.Node), next: make(map[int64]absence)}
	f.unlinked, f.unlink = context.WithCancel(ctx)
	if !cfg.Shared {
		f.aloneUntil.Store(math.MaxInt64)
	}
	return f
}

// Count returns how many instances live, as they were last read.
func (f *Fleet) Count() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Counts{max(f.counts.Clients, 1), max(f.counts.Runs, 1)}
}

// IsOffered reports whether another instance offers an agent, a tool or a workflow of that name in a project, as they were last read.
func (f *Fleet) IsOffered(project, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.servers, func(s Server) bool {
		return s.ID != f.cfg.Instance && slices.ContainsFunc(s.Offer, func(o host.Offered) bool { return o.Name == name && o.In(project) })
	})
}

// Servers returns the living instances as they were last read, this one first.
func (f *Fleet) Servers() []Server {
	f.mu.Lock()
	list := slices.Clone(f.servers)
	f.mu.Unlock()
	own := Server{ID: f.cfg.Instance, Identity: f.cfg.Identity, Offer: f.cfg.Plugins().Offer(), Load: f.cfg.Load(), Draining: f.cfg.Stopping()}
	if at := slices.IndexFunc(list, func(s Server) bool { return s.ID == own.ID }); at >= 0 {
		own.Addr, own.StartedAt, own.SeenAt = list[at].Addr, list[at].StartedAt, list[at].SeenAt
		list = slices.Delete(list, at, at+1)
	}
	return slices.Insert(list, 0, own)
}

// OthersLive reports whether another instance may live. What only others need is spared while this instance has seen none for some time:
// one that has just joined may wait a second longer for it.
func (f *Fleet) OthersLive() bool { return time.Now().UnixNano() >= f.aloneUntil.Load() }

// Expect has OthersLive be true again.
func (f *Fleet) Expect() { f.aloneUntil.Store(0) }

// Looked notes that the logs of all other instances were read, since a time.
func (f *Fleet) Looked(began time.Time) { f.lookedAt.Store(began.UnixNano()) }

// Watch looks once at the others, and introduces this instance. It reports whether another one has ended, and whether this one has found
// itself alone. It is called by one goroutine, about once a second.
func (f *Fleet) Watch(ctx context.Context) (gone, alone bool, err error) {
	began := time.Now()
	seen, err := f.cfg.Members.Watch(ctx)
	switch {
	case err != nil || seen.Others > 0 || f.cfg.Stopping():
		if f.quiet = (time.Time{}); f.aloneUntil.Swap(0) > 0 { // others may have missed these
			f.cfg.Link.HintAll(bus.Revoked)
			f.cfg.Link.HintAll(bus.Changed)
		}
	case f.quiet.IsZero():
		f.quiet = began
	case began.Sub(f.quiet) >= quietFor && f.lookedAt.Load() > f.quiet.UnixNano():
		alone = f.aloneUntil.Swap(began.Add(aloneFor).UnixNano()) == 0
	}
	if f.OthersLive() || f.looks%aloneEach == 0 {
		err = errors.Join(err, f.Meet(ctx))
	}
	f.looks++
	return seen.Gone, alone, errors.Join(err, f.Introduce(ctx))
}

// Introduce sends the others the changes of this instance, if it is time.
func (f *Fleet) Introduce(ctx context.Context) error {
	f.mu.Lock()
	sent, load, at := f.sent, f.load, f.sentAt
	f.mu.Unlock()
	if time.Since(at) < tellEach {
		return nil
	}
	a := about{f.cfg.Identity, f.cfg.Plugins().Offer()}
	var s data.Server
	s.About, _ = data.JSON(a) // our own structs always encode
	if len(s.About) > maxAbout {
		a.Offer = nil
		s.About, _ = data.JSON(a)
	}
	sum := sha256.Sum256(s.About)
	if s.Hash = hex.EncodeToString(sum[:]); s.Hash == sent {
		s.About = nil
	}
	now := f.cfg.Load()
	if s.About != nil && a.Offer == nil {
		f.cfg.Log.Warn("this server offers too much to tell the others: for them it may execute anything")
	}
	if s.About != nil || now != load {
		s.Load, _ = data.JSON(now)
		if err := f.cfg.Members.Tell(ctx, &s); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent, f.load, f.sentAt = s.Hash, now, time.Now()
	return nil
}

// Meet reads the descriptions of the other instances.
func (f *Fleet) Meet(ctx context.Context) error {
	f.mu.Lock()
	known := slices.Collect(maps.Keys(f.known))
	f.mu.Unlock()
	rows, err := f.cfg.Members.Servers(ctx, known)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(f.missing) // the time without an answer does not count
		return err
	}
	f.learn(rows)
	return nil
}

// learn remembers the descriptions of the instances.
func (f *Fleet) learn(rows []data.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used, list := make(map[string]*Server), make([]Server, len(rows))
	var counts Counts
	for i := range rows {
		row := &rows[i]
		about := f.known[row.Hash]
		if about == nil {
			about = new(readServer(row))
		}
		if row.Hash != "" {
			used[row.Hash] = about
		}
		list[i] = about.in(row)
		if about.Role != Worker && !row.Draining {
			counts.Clients++
		}
		if about.Role != Gateway {
			counts.Runs++
		}
	}
	f.counts, f.servers, f.known = counts, list, used
}

// Connect begins to send and receive hints, which have an instance look at the database earlier than it would anyway. This one wants news of
// the threads and lists that wanted returns.
func (f *Fleet) Connect(wanted func(kind bus.Kind, most int) []int64) {
	f.linking.Go(func() { f.cfg.Link.Run(f.unlinked, wanted) }) // ends with Disconnect, or with the context of New
}

// HintRevoked makes the other servers check a credential.
func (f *Fleet) HintRevoked(credential string) { f.cfg.Link.Hint(bus.Revoked, bus.KeyOf(credential)) }

// Disconnect sends the last hints.
func (f *Fleet) Disconnect() {
	f.unlink()
	f.linking.Wait()
}
