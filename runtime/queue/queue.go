// Package queue decides which run begins next on this server: it looks at the rows of the queue in the database, chooses those for which
// there is room, and knows why the others wait. It executes nothing: the engine claims the runs.
package queue

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// Store has the runs in the queue.
type Store interface {
	Heads(ctx context.Context, runs []int64) ([]data.RunHead, error)
	Weight(ctx context.Context, thread, run int64) (data.Weight, error)
	OpenRuns(ctx context.Context, thread int64) ([]data.RunHead, error)
}

// Runs begins and cancels runs.
type Runs interface {
	// Claim begins a run that has a reservation. It fails with ErrElsewhere if only another server may execute the run.
	Claim(run *data.RunHead, res *Reservation) error
	// Unclaimed ends a run that can never be claimed, because of the error of Claim. Otherwise it waits until another claim may succeed.
	Unclaimed(run *data.RunHead, err error)
	// Cancel cancels a run that blocks the first in line of its thread, and waits if that fails.
	Cancel(run *data.RunHead)
}

// Servers knows which servers of a cluster may execute a run.
type Servers interface {
	// Offers reports whether this server may execute a run, and if not, whether it may execute others of the run's lane.
	Offers(run *data.RunHead) (offers, others bool)
	// Elsewhere reports whether another server may execute a run, and whether one of them has a free slot.
	Elsewhere(run *data.RunHead) (may, free bool)
	// OthersLive reports whether another server may live.
	OthersLive() bool
}

// ErrElsewhere leaves a run to another server of the cluster.
var ErrElsewhere = data.Refuse(data.KindConflict, "goes_on", "Another server begins the run")

// Config configures a Queue.
type Config struct {
	Store    Store
	Rows     data.Queue
	Runs     Runs
	Servers  Servers         // nil without a cluster
	Link     *bus.Link       // to the other servers
	Quit     <-chan struct{} // closed when no more runs begin here
	Gateway  bool            // no runs begin here at all
	Unshared func(error)     // logs errors of reads that are tried again

	Slots       quota.Limits           // executing runs
	PerAgent    int                    // slots of one agent or workflow, 0 for no limit
	OwnLimit    func(agent string) int // an agent's own limit of slots, 0 for none
	Asked, Said quota.Limits           // bytes of their inputs and messages
	LightBytes  int                    // which are not counted
	Caps        data.Caps              // on RUNNING runs over all servers
}

// Queue begins runs as there is room for them.
type Queue struct {
	cfg       Config
	admission *admission
	looks     *looks
	counts    counts
	turns     turns          // used by one look at a time
	serving   sync.WaitGroup // of rows

	frees         atomic.Int64          // how often room has become free
	orphaned      chan struct{}         // has a value when runs may have lost their server
	orphanWeights map[int64]data.Weight // of runs without room, as the last Search has weighed them; used by one Search at a time
}

// New returns a queue whose first Look is due.
func New(cfg Config) *Queue {
	q := &Queue{cfg: cfg, looks: newLooks(), turns: newTurns(), orphaned: make(chan struct{}, 1)}
	q.admission = newAdmission(&q.cfg)
	return q
}

// Admit reserves for a requested run. It returns nil if the run has to wait in the queue, as far as this server knows.
func (q *Queue) Admit(ctx context.Context, c *decide.Start) *Reservation {
	if q.looks.stops(&c.Run.RunHead, 0, q.admission.free()) {
		return nil
	}
	weight, err := q.admission.weighStart(ctx, c)
	if err != nil || weight > 0 && q.looks.stops(&c.Run.RunHead, weight, q.admission.free()) {
		return nil
	}
	res, _ := q.admission.admit(&c.Run.RunHead, data.Weight{Asked: weight})
	return res
}

// Settle sets a reservation to the n bytes of messages that a run has when it begins. The rest is for others.
func (q *Queue) Settle(res *Reservation, n int) {
	res.settle(n)
	q.looks.room()
}

// Leave ends the reservation of a run that has ended here. Its user and project may be below their limits over all servers again.
func (q *Queue) Leave(run *data.RunHead, res *Reservation) {
	q.admission.uncap(data.Name{Project: run.Project}, data.Name{Project: run.Project, User: run.User})
	q.Release(res)
}

// Release gives the room of a run to others.
func (q *Queue) Release(res *Reservation) {
	res.release()
	q.Freed()
}

// Freed lets runs begin for which there is room now. Those that have lost their server come first.
func (q *Queue) Freed() {
	q.frees.Add(1)
	if q.looks.orphansWait() {
		q.FindOrphans()
	}
	q.looks.room()
}

// Note heeds a decision.
func (q *Queue) Note(out *decide.Decided) {
	q.counts.follow(out.Moves)
	q.looks.note(out)
}

// Wake has the queue look, with cancels also for runs to cancel: other servers may have written rows.
func (q *Queue) Wake(cancels bool) {
	q.looks.mark(cancels)
	q.looks.nudge()
}

// Count counts the queue of all servers.
func (q *Queue) Count(ctx context.Context) error {
	return q.counts.recount(func() (map[data.Name]int, error) { return q.cfg.Rows.CountQueued(ctx) })
}

// CountCapped lets the runs begin of projects and users that are below their limits over all servers again.
func (q *Queue) CountCapped(ctx context.Context) {
	names := q.admission.allCapped()
	if len(names) == 0 {
		return
	}
	running, err := q.cfg.Rows.CountRunning(ctx, names)
	if err != nil {
		return
	}
	names = slices.DeleteFunc(names, func(of data.Name) bool { return q.cfg.Caps.Reached(of, running[of]) })
	if len(names) > 0 {
		q.admission.uncap(names...)
		q.Wake(false)
	}
}

// Queued returns how many runs are QUEUED: of all, of a project, and of a user in it.
func (q *Queue) Queued(project, user string) data.InQueue { return q.counts.of(project, user) }

// Free returns the number of free slots, which may be below zero.
func (q *Queue) Free() int { return q.admission.free() }

// Running returns how many slots a user and its project use.
func (q *Queue) Running(project, user string) (ofUser, ofProject int) {
	used := q.admission.slots.Used(quota.OwnerOf(project, user))
	return int(used.User), int(used.Project)
}

// Bytes returns the bytes that all runs have reserved for their inputs and for their messages.
func (q *Queue) Bytes() (asked, said int64) {
	return q.admission.asked.Used(quota.Owner{}).Total, q.admission.said.Used(quota.Owner{}).Total
}
