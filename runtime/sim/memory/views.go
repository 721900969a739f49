package memory

import (
	"cmp"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// views are the views of a batch's decisions, one per thread.
type views struct {
	tx         *tx
	byKey      map[int64]*data.View
	byName     map[data.Name]*data.View
	names      map[data.Name]data.NamedRun
	remembered map[string]data.Remembered
	living     map[string]bool
	running    map[data.Name]int
}

// views reads all threads before the first decision.
func (tx *tx) views(asks []data.Ask) *views {
	vs := &views{
		tx: tx, byKey: make(map[int64]*data.View), byName: make(map[data.Name]*data.View),
		names: make(map[data.Name]data.NamedRun), remembered: make(map[string]data.Remembered),
		living: make(map[string]bool), running: make(map[data.Name]int),
	}
	wanted := make(map[*data.View]*data.Ask)
	for i := range asks {
		a := &asks[i]
		v := vs.find(a)
		if wanted[v] == nil {
			wanted[v] = new(data.Ask)
		}
		w := wanted[v]
		w.Runs, w.IDs, w.Waits = append(w.Runs, a.Runs...), append(w.IDs, a.IDs...), w.Waits || a.Waits
		w.Owner = cmp.Or(w.Owner, a.Owner)
		w.Interrupts = append(w.Interrupts, a.Interrupts...)
		vs.addName(a.RunName)
		vs.addKey(a.Scope)
		if of := a.Counts; of != (data.Name{}) && !tx.counted[runsOf(of)] {
			vs.running[of] = 0
			for name, n := range tx.count(data.Running) {
				if name == of || of.User == "" && name.Project == of.Project {
					vs.running[name] = n
				}
			}
		}
		if in := tx.instances[a.Owner]; in != nil && in.End == "" {
			vs.living[a.Owner] = true
		}
	}
	for v, w := range wanted {
		if v.Exists {
			tx.fill(v, w)
		}
	}
	return vs
}

// find returns the view for an ask, with the thread's head if there is one.
func (vs *views) find(a *data.Ask) *data.View {
	v := vs.of(a)
	if v.Exists {
		return v
	}
	for _, t := range vs.tx.threads {
		if t.Key == a.Thread || a.Thread == 0 && nameOf(t) == a.Name {
			v.Exists, v.Thread = true, t.ThreadHead
			if known := vs.byKey[t.Key]; known != nil && known.Exists {
				v = known
			}
			vs.keep(v)
		}
	}
	return v
}

// of returns the view for an ask, empty if there is no such thread.
func (vs *views) of(a *data.Ask) *data.View {
	v := vs.byName[a.Name]
	if a.Thread != 0 {
		v = vs.byKey[a.Thread]
	}
	if v != nil {
		return v
	}
	v = &data.View{
		Now: vs.tx.at, Inbox: make(map[int64]data.Inbox), CancelAsked: make(map[int64]bool), Known: make(map[string]bool), Signals: make(map[int64][]data.Signal),
		Names: vs.names, Remembered: vs.remembered, Living: vs.living, Running: vs.running,
	}
	if a.Thread != 0 {
		vs.byKey[a.Thread] = v
	} else if a.Name != (data.Name{}) {
		vs.byName[a.Name] = v
	}
	return v
}

// keep registers a thread by key and name, also one that a decision has created.
func (vs *views) keep(v *data.View) {
	if v.Exists {
		vs.byKey[v.Thread.Key] = v
		vs.byName[data.Name{Project: v.Thread.Project, User: v.Thread.User, ID: v.Thread.ID}] = v
	}
}

func (vs *views) addName(name data.Name) {
	n := vs.tx.names[name]
	if n == nil {
		return
	}
	run := vs.tx.runs[n.RunKey]
	named := data.NamedRun{RunKey: run.Key, ThreadKey: run.ThreadKey, ID: run.ID, BodyHash: n.BodyHash, Status: run.Status}
	for _, s := range vs.tx.spansOf(run.Key) {
		if s.RunID == n.Name {
			named.First = s.First
			break
		}
	}
	vs.names[name] = named
}

func (vs *views) addKey(scope string) {
	if row := vs.tx.remembered[scope]; row != nil && scope != "" {
		k := copied(row)
		old := data.Remembered{BodyHash: k.BodyHash, RunKey: k.RunKey, Answer: k.Answer, CreatedAt: k.CreatedAt}
		if k.RunKey != 0 && vs.tx.runs[k.RunKey] == nil {
			old.RunGone, old.Answer = true, nil
		}
		vs.remembered[scope] = old
	}
}

// fill reads the requested rows of a thread.
func (tx *tx) fill(v *data.View, w *data.Ask) {
	thread := v.Thread.Key
	if w.Owner != "" {
		v.Last = v.Thread.LastEventID
		for _, ev := range tx.events[thread] {
			v.Last = max(v.Last, ev.ID)
		}
	}
	v.Runs = tx.openRuns(thread)
	over := tx.runs.sorted(func(r *data.Run) bool {
		return r.ThreadKey == thread && slices.Contains(w.Runs, r.Key) && v.Run(r.Key) == nil
	}, byKey)
	for _, r := range over {
		v.Runs = append(v.Runs, copied(&r.RunHead))
	}
	for i := range v.Runs {
		if tx.asks[v.Runs[i].Key] != nil {
			v.CancelAsked[v.Runs[i].Key] = true
		}
		for _, s := range tx.signals[v.Runs[i].Key].sorted(all, func(a, b *data.Signal) int { return cmp.Compare(a.N, b.N) }) {
			head := *s
			head.Payload = nil
			v.Signals[s.RunKey] = append(v.Signals[s.RunKey], head)
		}
	}
	for _, m := range tx.messages[thread] {
		if m.State == data.MessageQueued && v.Run(m.RunKey) != nil {
			in := v.Inbox[m.RunKey]
			in.Messages, in.Bytes, in.Last = in.Messages+1, in.Bytes+len(m.AppendJSON(nil, agui.Stored)), max(in.Last, m.Key)
			v.Inbox[m.RunKey] = in
		}
		for _, id := range []string{m.ID, m.ToolCallID} {
			if id != "" && slices.Contains(w.IDs, id) {
				v.Known[id] = true
			}
		}
	}
	var asked []*interrupt
	for _, r := range tx.runs {
		if r.ThreadKey != thread {
			continue
		}
		waits := v.Run(r.Key) != nil && (r.Status == data.Waiting || r.Answered || r.Status == data.Running && w.Waits)
		for _, in := range tx.interrupts[r.Key] {
			if waits || slices.Contains(w.Interrupts, in.ID) {
				asked = append(asked, in)
			}
		}
	}
	slices.SortFunc(asked, byTime)
	for _, in := range asked {
		v.Asked = append(v.Asked, data.Asked{
			RunKey: in.RunKey, ID: in.ID, Step: in.Step, Place: in.Place, Frontend: in.Frontend, Status: in.Status,
			Expired: in.Payload == nil && (in.Status == data.InterruptAnswered || in.Status == data.InterruptResolved),
		})
	}
}

func byTime(a, b *interrupt) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Key, b.Key))
}

// openRuns returns the thread's open runs in the order in which they are claimed.
func (db *Database) openRuns(thread int64) (heads []data.RunHead) {
	open := db.runs.sorted(func(r *data.Run) bool { return r.ThreadKey == thread && !r.Status.Final() }, func(a, b *data.Run) int {
		return cmp.Or(
			order(a.Status == data.Queued, b.Status == data.Queued), order(!a.Answered, !b.Answered),
			cmp.Compare(a.Turn, b.Turn), a.QueuedAt.Compare(b.QueuedAt), cmp.Compare(a.Key, b.Key))
	})
	for _, r := range open {
		heads = append(heads, copied(&r.RunHead))
	}
	return heads
}

// order sorts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// spansOf returns the run's spans in order.
func (db *Database) spansOf(run int64) []*data.Span {
	r := db.runs[run]
	if r == nil {
		return nil
	}
	return db.spans[r.ThreadKey].sorted(func(s *data.Span) bool { return s.RunKey == run }, func(a, b *data.Span) int {
		return cmp.Compare(a.N, b.N)
	})
}
