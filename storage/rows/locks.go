package rows

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	// awaitThread waits a moment for a thread. It is sent as one message, without parameters.
	awaitThread = `
SAVEPOINT awaiting; SET LOCAL lock_timeout = '50ms';
SELECT key FROM threads WHERE key = %d FOR NO KEY UPDATE;
SET LOCAL lock_timeout TO DEFAULT; RELEASE SAVEPOINT awaiting`

	// stopAwaiting also restores the lock_timeout.
	stopAwaiting = `
ROLLBACK TO SAVEPOINT awaiting`

	// lockNames returns the locks that another transaction has.
	lockNames = `
SELECT id FROM unnest(?::bigint[]) AS wanted (id) WHERE NOT pg_try_advisory_xact_lock(id)`
)

// runName is a run's name in Views.elsewhere.
type runName data.Name

// runsOf is a project or a user in Views.elsewhere whose RUNNING runs another instance counts.
type runsOf data.Name

// Views locks the requested threads, and the names and scopes that have no row yet, before the transaction writes
// rows: it waits for no other instance.
func (tx *Tx) Views(asks []data.Ask) (*Views, error) {
	vs := &Views{tx: tx, byKey: make(map[int64]*data.View), byName: make(map[data.Name]*data.View), shared: data.View{
		Now: tx.Now, Names: make(map[data.Name]data.NamedRun), Remembered: make(map[string]data.Remembered),
		Living: make(map[string]bool), Running: make(map[data.Name]int),
	}}
	return vs, vs.lock(asks)
}

// lock locks the threads, in the order of their keys, and finds those that are locked elsewhere.
func (vs *Views) lock(asks []data.Ask) error {
	threads, names := make(map[int64]bool), make(map[data.Name]bool)
	for i := range asks {
		if a := &asks[i]; a.Thread != 0 {
			threads[a.Thread] = true
		} else if a.Name != (data.Name{}) {
			names[a.Name] = true
		}
	}
	named, err := sqldb.Find(vs.tx.Context(), vs.tx, scanThreadHead, selectThreadsNamed, namesOf(slices.Collect(maps.Keys(names))))
	if err != nil {
		return err
	}
	heads := named
	if !vs.tx.DB.Single || len(threads) > 0 {
		for _, h := range named {
			threads[h.Key] = true
		}
		if err := vs.await(asks, named); err != nil {
			return err
		}
		heads, err = sqldb.Find(vs.tx.Context(), vs.tx, scanThreadHead, lockThreads, keysOf(slices.Collect(maps.Keys(threads))))
	}
	for _, h := range heads {
		v := vs.empty()
		v.Exists, v.Thread = true, h
		vs.Keep(v)
		delete(threads, h.Key)
	}
	if err != nil || vs.tx.DB.Single {
		return err
	}
	vs.elsewhere = make(map[any]bool)
	existing, err := sqldb.Find(vs.tx.Context(), vs.tx, sqldb.Scalar[int64], selectThreadKeys, keysOf(slices.Collect(maps.Keys(threads)))) // the others are gone
	for _, key := range existing {
		vs.elsewhere[key] = true
	}
	for i := range named {
		delete(names, threadName(&named[i]))
		if vs.elsewhere[named[i].Key] {
			vs.elsewhere[threadName(&named[i])] = true
		}
	}
	if err != nil {
		return err
	}
	return vs.lockNew(asks, names)
}

// await waits a moment for the thread of the first ask that has been deferred too often, so that decisions of other
// instances cannot keep it waiting for ever. The transaction has locked no other thread yet: two instances never wait for
// each other.
func (vs *Views) await(asks []data.Ask, named []data.ThreadHead) error {
	i := slices.IndexFunc(asks, func(a data.Ask) bool { return a.Await })
	if i < 0 || vs.tx.DB.Single {
		return nil
	}
	key := asks[i].Thread
	for j := range named {
		if key == 0 && threadName(&named[j]) == asks[i].Name {
			key = named[j].Key
		}
	}
	err := vs.tx.Try(fmt.Sprintf(awaitThread, key))
	if sqldb.IsLocked(err) {
		return vs.tx.Define(stopAwaiting)
	}
	if err != nil {
		return vs.tx.Failed(vs.tx.Context(), err)
	}
	return nil
}

// lockNew locks the names of new threads, and of runs and scopes, for which there is no row to lock. Otherwise an INSERT
// would wait for the transaction of another instance with an equal one. It also locks the projects and users whose RUNNING runs
// are counted, until the transaction has added to them.
func (vs *Views) lockNew(asks []data.Ask, threads map[data.Name]bool) error {
	wanted := make(map[int64][]any)
	add := func(what any, kind string, parts ...string) {
		sum := fnv.New64a()
		_, _ = fmt.Fprintf(sum, "%s %q", kind, parts)
		id := int64(sum.Sum64()) //nolint:gosec // any number serves
		wanted[id] = append(wanted[id], what)
	}
	for name := range threads {
		add(name, "thread", name.Project, name.User, name.ID)
	}
	for i := range asks {
		if n := asks[i].RunName; n != (data.Name{}) {
			add(runName(n), "run", n.Project, n.User, n.ID)
		}
		if scope := asks[i].Scope; scope != "" {
			add(scope, "scope", scope)
		}
		if n := asks[i].Counts; n != (data.Name{}) {
			add(runsOf(n), "counted", n.Project, n.User)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	held, err := sqldb.Find(vs.tx.Context(), vs.tx, sqldb.Scalar[int64], lockNames, keysOf(slices.Collect(maps.Keys(wanted))))
	for _, id := range held {
		for _, what := range wanted[id] {
			vs.elsewhere[what] = true
		}
	}
	return err
}

// Defers reports whether a decision cannot be taken now, because another instance has locked its rows. Later
// decisions about the same thread are deferred too, which keeps their order.
func (vs *Views) Defers(a *data.Ask) bool {
	if len(vs.elsewhere) == 0 {
		return false
	}
	thread := any(a.Name)
	if a.Thread != 0 {
		thread = a.Thread
	}
	if !vs.elsewhere[thread] && !vs.elsewhere[runName(a.RunName)] && !vs.elsewhere[a.Scope] {
		return false
	}
	if v := vs.Of(a); v.Exists {
		vs.elsewhere[v.Thread.Key], vs.elsewhere[threadName(&v.Thread)] = true, true
	} else if thread != any(data.Name{}) {
		vs.elsewhere[thread] = true
	}
	return true
}
