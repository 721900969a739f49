package rows

import (
	"cmp"
	"database/sql"
	"maps"
	"slices"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// Views are the views of a batch's decisions, one per thread.
type Views struct {
	tx        *Tx
	byKey     map[int64]*data.View
	byName    map[data.Name]*data.View
	shared    data.View    // the fields that are the same in each
	elsewhere map[any]bool // what other instances have locked: keys and names of threads, names of runs, scopes
}

// Load reads the rows for all asks. The number of statements does not depend on the number of decisions; statements
// without a request are skipped.
func (vs *Views) Load(asks []data.Ask) error {
	if err := vs.readShared(asks); err != nil {
		return err
	}
	if err := vs.countRunning(asks); err != nil || len(vs.byKey) == 0 {
		return err
	}
	if err := vs.readRuns(asks); err != nil {
		return err
	}
	if err := vs.readAsked(asks); err != nil {
		return err
	}
	if err := vs.readOwners(asks); err != nil {
		return err
	}
	return vs.readKnown(asks)
}

func threadName(h *data.ThreadHead) data.Name {
	return data.Name{Project: h.Project, User: h.User, ID: h.ID}
}

// Of returns the view for an ask, an empty one when there is no such thread.
func (vs *Views) Of(a *data.Ask) *data.View {
	v := vs.byName[a.Name]
	if a.Thread != 0 {
		v = vs.byKey[a.Thread]
	}
	if v != nil {
		return v
	}
	v = vs.empty()
	if a.Thread != 0 {
		vs.byKey[a.Thread] = v
	} else if a.Name != (data.Name{}) {
		vs.byName[a.Name] = v
	}
	return v
}

// Keep has later decisions find the thread that a decision has created.
func (vs *Views) Keep(v *data.View) {
	if v.Exists {
		vs.byKey[v.Thread.Key] = v
		vs.byName[threadName(&v.Thread)] = v
	}
}

func (vs *Views) empty() *data.View {
	v := vs.shared
	v.Inbox, v.CancelAsked, v.Known = make(map[int64]data.Inbox), make(map[int64]bool), make(map[string]bool)
	v.Signals = make(map[int64][]data.Signal)
	return &v
}

// readShared reads the rows outside of threads.
func (vs *Views) readShared(asks []data.Ask) error {
	var names []data.Name
	var scopes [][]any
	for i := range asks {
		if n := asks[i].RunName; n != (data.Name{}) && !slices.Contains(names, n) {
			names = append(names, n)
		}
		if asks[i].Scope != "" {
			scopes = append(scopes, []any{asks[i].Scope})
		}
	}
	runs, err := sqldb.Find(vs.tx.Context(), vs.tx, scanNamed, selectRunsNamed, namesOf(names))
	if err != nil {
		return err
	}
	for _, n := range runs {
		vs.shared.Names[n.Name] = n.run
	}
	list, err := sqldb.Find(vs.tx.Context(), vs.tx, scanRemembered, selectRemembered, scopes)
	for _, r := range list {
		vs.shared.Remembered[r.scope] = r.Remembered
	}
	return err
}

// readRuns reads open and requested runs, their inboxes and their signals.
func (vs *Views) readRuns(asks []data.Ask) error {
	open, err := sqldb.Find(vs.tx.Context(), vs.tx, scanSubject, selectOpenSubjects, keysOf(slices.Collect(maps.Keys(vs.byKey))))
	if err != nil {
		return err
	}
	of := make(map[int64]*data.View)
	var runs, signalled, wanted [][]any
	add := func(s *subject) {
		if v := vs.byKey[s.ThreadKey]; v != nil {
			v.Runs = append(v.Runs, s.RunHead)
			if of[s.Key] = v; s.queued {
				runs = append(runs, []any{s.Key})
			}
			if s.Signals > 0 && !s.Status.Final() {
				signalled = append(signalled, []any{s.Key})
			}
			if s.asked {
				v.CancelAsked[s.Key] = true
			}
		}
	}
	for i := range open {
		add(&open[i])
	}
	for i := range asks {
		for _, key := range asks[i].Runs {
			if of[key] == nil {
				wanted = append(wanted, []any{key})
			}
		}
	}
	over, err := sqldb.Find(vs.tx.Context(), vs.tx, scanSubject, selectSubjects, wanted)
	if err != nil {
		return err
	}
	for i := range over {
		add(&over[i])
	}
	accepted, err := sqldb.Find(vs.tx.Context(), vs.tx, scanInbox, selectInbox, runs)
	for _, in := range accepted {
		of[in.run].Inbox[in.run] = in.Inbox
	}
	if err != nil {
		return err
	}
	signals, err := sqldb.Find(vs.tx.Context(), vs.tx, scanSignal, selectSignals, signalled)
	for _, s := range signals {
		of[s.RunKey].Signals[s.RunKey] = append(of[s.RunKey].Signals[s.RunKey], s)
	}
	return err
}

// readAsked reads the interrupts of the runs that wait for answers or have them, and those that are wanted.
func (vs *Views) readAsked(asks []data.Ask) error {
	var runs, ids [][]any
	waits := make(map[*data.View]bool)
	for i := range asks {
		if asks[i].Waits {
			waits[vs.Of(&asks[i])] = true
		}
	}
	for _, v := range vs.byKey {
		for _, h := range v.Runs {
			if h.Status == data.Waiting || h.Answered || h.Status == data.Running && waits[v] {
				runs = append(runs, []any{h.Key})
			}
		}
	}
	for i := range asks {
		for _, id := range asks[i].Interrupts {
			if v := vs.Of(&asks[i]); v.Exists {
				ids = append(ids, []any{v.Thread.Key, id})
			}
		}
	}
	list, err := sqldb.Find(vs.tx.Context(), vs.tx, scanAsked, selectAskedOfRuns, runs)
	if err != nil {
		return err
	}
	more, err := sqldb.Find(vs.tx.Context(), vs.tx, scanAsked, selectAskedByID, ids)
	if err != nil {
		return err
	}
	list = append(list, more...)
	slices.SortFunc(list, func(a, b asked) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key, b.key))
	})
	list = slices.CompactFunc(list, func(a, b asked) bool { return a.key == b.key })
	for _, a := range list {
		if v := vs.byKey[a.thread]; v != nil {
			v.Asked = append(v.Asked, a.Asked)
		}
	}
	return nil
}

const (
	selectLiving = `
SELECT id FROM instances WHERE id = ANY (?) AND NOT fenced`

	selectLogEnds = `
SELECT t.key, COALESCE((SELECT last_event_id FROM events e WHERE e.thread_key = t.key ORDER BY last_event_id DESC LIMIT 1), 0)
FROM threads t WHERE t.key = ANY (?)`
)

// readOwners reads which of the requested owners may write, and the ends of the logs. An instance that was fenced stays fenced,
// and writes nothing more.
func (vs *Views) readOwners(asks []data.Ask) error {
	var owners, threads [][]any
	for i := range asks {
		if asks[i].Owner != "" {
			owners, threads = append(owners, []any{asks[i].Owner}), append(threads, []any{asks[i].Thread})
		}
	}
	living, err := sqldb.Find(vs.tx.Context(), vs.tx, sqldb.Scalar[string], selectLiving, owners)
	if err != nil {
		return err
	}
	for _, owner := range living {
		vs.shared.Living[owner] = true
	}
	type end struct{ thread, last int64 }
	ends, err := sqldb.Find(vs.tx.Context(), vs.tx, func(rows *sql.Rows) (e end, err error) {
		return sqldb.Scan(rows, &e, &e.thread, &e.last)
	}, selectLogEnds, threads)
	for _, e := range ends {
		if v := vs.byKey[e.thread]; v != nil {
			v.Last = max(e.last, v.Thread.LastEventID)
		}
	}
	return err
}

// readKnown finds out which of the ids that are asked for the threads know.
func (vs *Views) readKnown(asks []data.Ask) error {
	var wanted [][]any
	for i := range asks {
		v := vs.Of(&asks[i])
		if !v.Exists {
			continue
		}
		for _, id := range asks[i].IDs {
			wanted = append(wanted, []any{v.Thread.Key, id})
		}
	}
	list, err := sqldb.Find(vs.tx.Context(), vs.tx, scanKnown, selectKnown, wanted)
	for _, k := range list {
		vs.byKey[k.thread].Known[k.id] = true
	}
	return err
}
