package storage

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/lib/pq"

	"github.com/batonrun/baton/runtime"
)

const (
	lockThreads = `
SELECT ` + threadColumns + ` FROM threads WHERE key = ANY (?) ORDER BY key FOR UPDATE`

	selectThreadsNamed = `
SELECT project_id, user_id, thread_id, key FROM threads
WHERE (project_id, user_id, thread_id) IN (SELECT * FROM unnest(?::text[], ?::text[], ?::text[]))`

	selectRunsNamed = `
SELECT project_id, user_id, name, run_key FROM run_names
WHERE (project_id, user_id, name) IN (SELECT * FROM unnest(?::text[], ?::text[], ?::text[]))`

	selectOpenRunsOf = selectRun + `
WHERE r.thread_key = ANY (?) AND r.status IN ('QUEUED', 'RUNNING', 'WAITING')` + claimOrder

	selectQueuedOf = `
SELECT ` + messageColumns + `, key FROM messages
WHERE run_key = ANY (?) AND state = 'queued' ORDER BY key LIMIT 10000`

	selectScopes = `
SELECT scope FROM idempotency_keys WHERE scope = ANY (?)`
)

// ahead is what a transaction has read before it is asked. What is put takes the answers away that it would change.
type ahead struct {
	absent  map[any]bool // names of threads and of runs, and scopes
	named   map[runtime.Name]int64
	threads map[int64]runtime.Thread
	open    map[int64][]runtime.Run     // by thread
	queued  map[int64][]runtime.Message // by run
}

// Names of threads and of runs are not the same.
type (
	threadName runtime.Name
	runName    runtime.Name
)

// Ahead reads at once what the transaction is about to ask for. Where a statement costs no round trip there is nothing
// to gain by it.
func (tx *tx) Ahead(w runtime.Wanted) error {
	if !tx.d.remote {
		return nil
	}
	a := ahead{
		absent: make(map[any]bool), named: make(map[runtime.Name]int64), threads: make(map[int64]runtime.Thread),
		open: make(map[int64][]runtime.Run), queued: make(map[int64][]runtime.Message),
	}
	if err := tx.readNames(&a, &w); err != nil {
		return err
	}
	if err := tx.readThreads(&a, w.Threads); err != nil {
		return err
	}
	if err := tx.readQueued(&a, w.Runs); err != nil {
		return err
	}
	tx.ahead = a
	return nil
}

// readNames finds out which names there are. The threads that it finds are wanted too.
func (tx *tx) readNames(a *ahead, w *runtime.Wanted) error {
	found, err := tx.named(selectThreadsNamed, w.ThreadNames)
	if err != nil {
		return err
	}
	for _, n := range w.ThreadNames {
		if key, ok := found[n]; ok {
			a.named[n] = key
			w.Threads = append(w.Threads, key)
		} else {
			a.absent[threadName(n)] = true
		}
	}
	if found, err = tx.named(selectRunsNamed, w.RunNames); err != nil {
		return err
	}
	for _, n := range w.RunNames {
		if _, ok := found[n]; !ok {
			a.absent[runName(n)] = true
		}
	}
	if len(w.Scopes) == 0 {
		return nil
	}
	scopes, err := all(tx.ctx, tx, scalar[string], selectScopes, pq.Array(w.Scopes))
	for _, s := range w.Scopes {
		if !slices.Contains(scopes, s) {
			a.absent[s] = true
		}
	}
	return err
}

// named returns the keys of those of the names that there are.
func (tx *tx) named(query string, names []runtime.Name) (map[runtime.Name]int64, error) {
	if len(names) == 0 {
		return nil, nil
	}
	var projects, users, ids []string
	for _, n := range names {
		projects, users, ids = append(projects, n.Project), append(users, n.User), append(ids, n.ID)
	}
	type namedKey struct {
		runtime.Name
		key int64
	}
	list, err := all(tx.ctx, tx, func(rows *sql.Rows) (n namedKey, err error) {
		err = rows.Scan(&n.Project, &n.User, &n.ID, &n.key)
		return n, err
	}, query, pq.Array(projects), pq.Array(users), pq.Array(ids))
	found := make(map[runtime.Name]int64, len(list))
	for _, n := range list {
		found[n.Name] = n.key
	}
	return found, err
}

func (tx *tx) readThreads(a *ahead, keys []int64) error {
	locked, _, err := readAhead(tx, scanThread, func(t *runtime.Thread) int { return len(t.State) }, lockThreads, keys)
	if err != nil {
		return err
	}
	for _, t := range locked {
		a.threads[t.Key] = t
	}
	size := func(r *runtime.Run) int { return len(r.Input) + len(r.Definition) }
	return group(tx, a.open, func(r *runtime.Run) int64 { return r.ThreadKey }, scanRun, size, selectOpenRunsOf, keys)
}

func (tx *tx) readQueued(a *ahead, runs []int64) error {
	size := func(m *runtime.Message) int { return len(m.Content) + len(m.Parts) }
	return group(tx, a.queued, func(m *runtime.Message) int64 { return m.RunKey }, scanMessage, size, selectQueuedOf, runs)
}

// group reads the rows of the keys into groups, one for each key, unless it gets only part of them.
func group[T any](
	tx *tx, groups map[int64][]T, key func(*T) int64, scan func(*sql.Rows) (T, error), size func(*T) int, query string, keys []int64,
) error {
	list, whole, err := readAhead(tx, scan, size, query, keys)
	if err != nil || !whole {
		return err
	}
	for _, k := range keys {
		groups[k] = nil
	}
	for _, row := range list {
		groups[key(&row)] = append(groups[key(&row)], row)
	}
	return nil
}

// readAhead returns the rows of the keys, and whether they are whole: not when there are very many or large ones.
func readAhead[T any](tx *tx, scan func(*sql.Rows) (T, error), size func(*T) int, query string, keys []int64) (list []T, whole bool, err error) {
	if len(keys) == 0 {
		return nil, true, nil
	}
	held := 0
	list, err = some(tx.ctx, tx, scan, func(row T) bool { held += size(&row); return held <= maxHeld }, query, int8s(keys))
	return list, held <= maxHeld && len(list) < maxCount, err
}

// forget takes back what a row changes that is put.
func (a *ahead) forget(k kind, of owners, key any, args []any) {
	switch k {
	case threads:
		delete(a.threads, of.thread)
		delete(a.absent, threadName(nameIn(args)))
	case runs:
		delete(a.open, of.thread)
	case runNames:
		delete(a.absent, runName(nameIn(args)))
	case messages:
		delete(a.queued, of.run)
	case idempotencyKeys:
		delete(a.absent, key)
	}
}

// nameIn is the name in the parameters of a row, of threads or names of runs.
func nameIn(args []any) runtime.Name {
	return runtime.Name{Project: args[0].(string), User: args[1].(string), ID: args[2].(string)}
}

// LockThread returns the thread and keeps every other transaction from locking it until the end.
func (tx *tx) LockThread(key int64) (runtime.Thread, error) {
	if t, ok := tx.ahead.threads[key]; ok {
		return t, tx.err
	}
	return one(tx.ctx, tx, scanThread, lockThread, key)
}

// OpenRuns returns the thread's QUEUED, RUNNING and WAITING runs in the order they will be claimed.
func (tx *tx) OpenRuns(ctx context.Context, threadKey int64) ([]runtime.Run, error) {
	if open, ok := tx.ahead.open[threadKey]; ok {
		return slices.Clone(open), tx.err
	}
	return tx.reader.OpenRuns(ctx, threadKey)
}

// Queued returns the run's messages that were accepted and not yet taken, in the order they came.
func (tx *tx) Queued(ctx context.Context, runKey int64) ([]runtime.Message, error) {
	if queued, ok := tx.ahead.queued[runKey]; ok {
		return slices.Clone(queued), tx.err
	}
	return tx.reader.Queued(ctx, runKey)
}

// Every request for a run looks for a thread, a run or a key of a name that is mostly new. The buffered rows of
// other requests are left where they are then.

// ThreadByID returns the user's thread of that id.
func (tx *tx) ThreadByID(ctx context.Context, project, user, id string) (runtime.Thread, error) {
	name := runtime.Name{Project: project, User: user, ID: id}
	if tx.ahead.absent[threadName(name)] {
		return runtime.Thread{}, tx.notFound()
	}
	if t, ok := tx.ahead.threads[tx.ahead.named[name]]; ok {
		return t, tx.err
	}
	b := &tx.rows[threads]
	if b.named(name) {
		return tx.reader.ThreadByID(ctx, project, user, id)
	}
	found, err := tx.written().ThreadByID(ctx, project, user, id)
	if _, again := b.rows[found.Key]; again {
		return tx.reader.ThreadByID(ctx, project, user, id)
	}
	return found, err
}

// RunsByName returns the runs of that name, first or later, in the project: of one user, or with user ""
// of all, at most 2.
func (tx *tx) RunsByName(ctx context.Context, project, user, id string) ([]runtime.Run, error) {
	name := runtime.Name{Project: project, User: user, ID: id}
	if user != "" && tx.ahead.absent[runName(name)] {
		return nil, tx.err
	}
	if user != "" && !tx.rows[runNames].named(name) {
		if found, err := tx.written().RunsByName(ctx, project, user, id); err != nil || len(found) == 0 {
			return nil, err
		}
	}
	return tx.reader.RunsByName(ctx, project, user, id)
}

// IdempotencyKey returns what is remembered under a scope.
func (tx *tx) IdempotencyKey(ctx context.Context, scope string) (runtime.IdempotencyKey, error) {
	if tx.ahead.absent[scope] {
		return runtime.IdempotencyKey{}, tx.notFound()
	}
	if _, again := tx.rows[idempotencyKeys].rows[scope]; again {
		return tx.reader.IdempotencyKey(ctx, scope)
	}
	return tx.written().IdempotencyKey(ctx, scope)
}

func (tx *tx) notFound() error { return cmp.Or(tx.err, runtime.ErrNotFound) }
