package queue

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// admission decides which runs may execute at once. An executing run has a slot. It also reserves the bytes of its input,
// which stay in memory while it executes, and the bytes of its messages as they grow. A run with few bytes reserves none.
type admission struct {
	cfg         *Config
	slots       *quota.Pool
	asked, said *quota.Pool // bytes

	mu     sync.Mutex         // guards the fields below
	agents map[string]int     // slots by workflow
	capped map[data.Name]bool // projects and users that had as many RUNNING runs on all instances as they may
}

func newAdmission(cfg *Config) *admission {
	return &admission{
		cfg: cfg, agents: make(map[string]int), capped: make(map[data.Name]bool),
		slots: quota.New(cfg.Slots), asked: quota.New(cfg.Asked), said: quota.New(cfg.Said),
	}
}

// Shares divides a limit: with accounts, a user may have half of it, and a project three quarters.
func Shares(all int64, accounts bool) quota.Limits {
	if !accounts {
		return quota.Limits{Total: all, PerProject: all, PerUser: all}
	}
	return quota.Limits{Total: all, PerProject: all / 4 * 3, PerUser: all / 2}
}

// Reservation holds the slot and the bytes of one run.
type Reservation struct {
	Slot *quota.Reservation // which the run may lend and take back

	of          *admission
	owner       quota.Owner
	workflow    string
	released    bool
	asked, said *quota.Reservation
	saidBytes   int64 // bytes reserved in said; used by settle, and by Grow with the run's mu held
}

func (a *admission) reservation(r *data.RunHead) *Reservation {
	return &Reservation{of: a, workflow: r.WorkflowID, owner: quota.OwnerOf(r.Project, r.User)}
}

// admit is try for a run that is to be claimed. A run that is taken over counts already in the limits over all instances.
func (a *admission) admit(r *data.RunHead, w data.Weight) (*Reservation, shortage) {
	if full := a.cappedScope(data.Name{Project: r.Project, User: r.User}); full != quota.None {
		return nil, shortage{slot: full}
	}
	return a.try(r, w)
}

// try reserves a slot and bytes for a run, or returns the shortage.
func (a *admission) try(r *data.RunHead, w data.Weight) (*Reservation, shortage) {
	if a.cfg.Servers != nil {
		if offers, _ := a.cfg.Servers.Offers(r); !offers {
			return nil, shortage{absent: true}
		}
	}
	if !a.countAgent(r) {
		return nil, shortage{agent: true}
	}
	res := a.reservation(r)
	var full quota.Scope
	if res.Slot, full = a.slots.Try(res.owner, 1); full != quota.None {
		res.release()
		return nil, shortage{slot: full}
	}
	if lacks := res.load(w); lacks != (shortage{}) {
		res.release()
		return nil, lacks
	}
	return res, shortage{}
}

// load adds the bytes of a run to a reservation, which must then be released if they have no room.
func (res *Reservation) load(w data.Weight) shortage {
	a := res.of
	var full quota.Scope
	if res.asked, full = a.asked.Try(res.owner, w.Asked); full != quota.None && w.Asked > 0 {
		return shortage{asked: full}
	}
	said := a.counted(int(w.Said))
	if res.said, full = a.said.Try(res.owner, said); full != quota.None && said > 0 {
		return shortage{said: full}
	}
	res.saidBytes = said
	return shortage{}
}

// force reserves for a run that executed before a restart, regardless of the limits.
func (a *admission) force(r *data.RunHead, w data.Weight) *Reservation {
	a.mu.Lock()
	a.agents[r.WorkflowID]++
	a.mu.Unlock()
	res := a.reservation(r)
	res.Slot, res.asked, res.said = a.slots.Reserve(res.owner), a.asked.Reserve(res.owner), a.said.Reserve(res.owner)
	res.Slot.Force(1)
	res.asked.Force(w.Asked)
	return res
}

// cappedScope returns the limit over all instances that was reached when a run of the user was claimed last, or None.
func (a *admission) cappedScope(user data.Name) quota.Scope {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.capped[user]:
		return quota.User
	case a.capped[data.Name{Project: user.Project}]:
		return quota.Project
	}
	return quota.None
}

// cap admits no more runs of a project or a user until uncap.
func (a *admission) cap(of data.Name) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.capped[of] = true
}

func (a *admission) uncap(of ...data.Name) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range of {
		delete(a.capped, name)
	}
}

// allCapped returns the projects and users that are capped.
func (a *admission) allCapped() []data.Name {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.capped))
}

// lacks returns the shortage that try would return now. It reserves nothing.
func (a *admission) lacks(r *data.RunHead, w data.Weight) shortage {
	owner := quota.OwnerOf(r.Project, r.User)
	limit := lower(a.cfg.PerAgent, a.cfg.OwnLimit(r.Agent))
	a.mu.Lock()
	full := a.agentFull(r, limit)
	a.mu.Unlock()
	if full {
		return shortage{agent: true}
	}
	if full := a.slots.Full(owner, 1); full != quota.None {
		return shortage{slot: full}
	}
	if full := a.asked.Full(owner, w.Asked); full != quota.None && w.Asked > 0 {
		return shortage{asked: full}
	}
	said := a.counted(int(w.Said))
	if full := a.said.Full(owner, said); full != quota.None && said > 0 {
		return shortage{said: full}
	}
	return shortage{}
}

// agentFull reports whether a run's agent has no slot left. The caller holds mu.
func (a *admission) agentFull(r *data.RunHead, limit int) bool {
	return limit > 0 && a.agents[r.WorkflowID] >= limit
}

// countAgent adds a slot to the run's agent. It reports false when the agent has none left.
func (a *admission) countAgent(r *data.RunHead) bool {
	limit := lower(a.cfg.PerAgent, a.cfg.OwnLimit(r.Agent))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.agentFull(r, limit) {
		return false
	}
	a.agents[r.WorkflowID]++
	return true
}

// lower returns the lower of two limits; 0 means no limit.
func lower(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// release returns the whole reservation to the pools. It may be called more than once, by one goroutine.
func (res *Reservation) release() {
	if res == nil {
		return
	}
	res.Slot.Release()
	res.asked.Release()
	res.said.Release()
	if res.released {
		return
	}
	res.released = true
	a := res.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.agents[res.workflow]--; a.agents[res.workflow] == 0 {
		delete(a.agents, res.workflow)
	}
}

// ReleaseMessages returns the bytes of the run's messages alone.
func (res *Reservation) ReleaseMessages() { res.said.Release() }

// TakeSlot waits for another slot of a run that has lent its own.
func (res *Reservation) TakeSlot(ctx context.Context) (*quota.Reservation, error) {
	return res.of.slots.Take(ctx, res.owner, 1)
}

// WhyNoSlot returns the Reason of a Wait for TakeSlot.
func (res *Reservation) WhyNoSlot() string {
	return shortage{slot: res.of.slots.Full(res.owner, 1)}.reason()
}

// Grow raises the reservation to n bytes of messages, or reports false when there is no room. A growing run must stay within
// the limits even if it is the only holder; a claim, in contrast, admits one oversize run alone.
func (res *Reservation) Grow(n int) bool {
	bytes := res.of.counted(n)
	more := bytes - res.saidBytes
	if more == 0 { // true of most events: nothing is locked
		return true
	}
	if bytes > res.of.cfg.Said.PerUser {
		return false
	}
	if more > 0 && res.said.Grow(more) != quota.None {
		return false
	}
	if more < 0 {
		res.said.Force(more)
	}
	res.saidBytes = bytes
	return true
}

// settle sets the reservation to the n bytes of messages that the run already has, regardless of the limits.
func (res *Reservation) settle(n int) {
	bytes := res.of.counted(n)
	res.said.Force(bytes - res.saidBytes)
	res.saidBytes = bytes
}

// free returns the number of free slots.
func (a *admission) free() int { return int(a.cfg.Slots.Total - a.slots.Used(quota.Owner{}).Total) }

// copies is the number of copies of a message in memory: in its worker, in the run's messages, in its event, and in the row
// that waits for its commit.
const copies = 4

// counted returns the bytes to reserve for n bytes of messages. It rounds down to steps of LightBytes, so that few events
// change the reservation and a run with fewer bytes reserves none.
func (a *admission) counted(n int) int64 { return copies * int64(n-n%a.cfg.LightBytes) }

// weightOf returns the weight of an input of so many bytes: nothing if they are few, because the slot covers them.
func (a *admission) weightOf(asked int64) int64 {
	if asked <= int64(a.cfg.LightBytes) {
		return 0
	}
	return asked
}

// weigh returns the weight of a run. Its messages count only if the run goes on. The weight is zero when the database does
// not return it: the claim then finds the error.
func (a *admission) weigh(ctx context.Context, r *data.RunHead) data.Weight {
	w, err := commit.RetryUnavailable(ctx, func() (data.Weight, error) { return a.cfg.Store.Weight(ctx, r.ThreadKey, r.Key) })
	if err != nil {
		return data.Weight{}
	}
	w.Asked = a.weightOf(w.Asked)
	w.Said *= 2 // a worker's answer is once more in its output
	if !r.Answered || w.Said < int64(a.cfg.LightBytes) {
		w.Said = 0
	}
	return w
}

// weighStart returns the weight of a requested run.
func (a *admission) weighStart(ctx context.Context, c *decide.Start) (int64, error) {
	asked := int64(len(c.Run.Input)+len(c.Run.Definition)) + int64(c.Size) + int64(len(c.Messages)*data.MessageBytes)
	if c.New {
		return a.weightOf(asked), nil
	}
	of, err := a.cfg.Store.Weight(ctx, c.Thread.Key, c.Run.Key)
	return a.weightOf(asked + of.Asked), err
}
