package lists

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

// A list of runs is read from an index in the list's order. With one column (user, status, workflow or thread) and the time a page costs
// as much as it shows. With more, the database tests the runs of one index for the other columns until the page is full, within the time
// of a search. A list by terms is in the order of the keys: see keysByTerms.

const (
	// The statement of a page is listRuns, the count or none, pageOfRuns, the
	// keys of the runs (which an index alone has) and thatAreShown: see listOfRuns.
	// It does not read columns that a list does not show.
	listRuns = `
SELECT r.thread_key, r.project_id, r.user_id, r.id, r.agent, r.workflow_id, r.status, r.generation, r.attempt, r.spans,
	r.span_name, r.turn, r.answered, r.owner_instance, r.replaces, r.roll_back, r.closed_event_id, r.error, r.created_at,
	r.queued_at, r.started_at, r.finished_at, r.claimed_at, r.waits, r.parked_event, r.active_ms, r.signals, r.key, NULL, NULL, COALESCE(i.input_query, ''), r.output_summary,
	r.usage, i.context_item_ids, NULL, COALESCE(i.parent_run, ''), t.thread_id, t.title, t.conversation_id, (`
	pageOfRuns = `), sized.found
FROM (SELECT sized_key, at, found
	FROM (SELECT sized_key, at, sum(size) OVER (`
	sizesOfRuns = `) - size AS behind, count(*) OVER () AS found
		FROM (SELECT r.key AS sized_key, page.at, COALESCE(octet_length(r.output_summary), 0) + COALESCE(octet_length(r.error), 0) + COALESCE(octet_length(r.usage), 0) +
				COALESCE((SELECT octet_length(input_query) + COALESCE(octet_length(context_item_ids), 0) FROM run_inputs WHERE run_key = r.key), 0) AS size
			FROM (`
	thatFit = `) AS page JOIN runs r ON r.key = page.key) AS plain) AS counted
	WHERE behind < ?`
	thatAreShown = sqldb.SizedFirst + `
JOIN runs r ON r.key = sized_key
LEFT JOIN run_inputs i ON i.run_key = r.key
JOIN threads t ON t.key = r.thread_key`

	// For a run that was deleted the time of the run before it in its project counts. Times of other projects are not read.
	selectCreated = `
SELECT created_at FROM (SELECT key, project_id, created_at FROM runs WHERE key <= ? ORDER BY key DESC LIMIT 1000) AS plain
WHERE project_id = ? ORDER BY key DESC LIMIT 1`

	// The keys of runs, in the order of the index that finds them.
	keysByTime = `SELECT key, created_at AS at FROM runs`
	keysByKey  = `SELECT key, 0 AS at FROM runs`
	countSome  = `SELECT count(*) FROM (`
	asCounted  = `) AS counted`

	// The keys of runs by terms, and of runs by a name. PostgreSQL is to look for the terms, among those of the scope alone, and not to
	// test the latest runs of all projects.
	keysByTerms = `SELECT run_terms.run_key AS key, 0 AS at
FROM (SELECT run_key FROM run_terms WHERE run_terms.terms @@ ? OFFSET 0) AS run_terms WHERE TRUE`
	keysByName = `SELECT run_names.run_key AS key, 0 AS at FROM run_names WHERE run_names.project_id = ? AND run_names.name = ?`
	nameOfUser = ` AND run_names.user_id = ?`

	// hasFacts requires tags and metadata of a run with a name.
	hasFacts = ` AND EXISTS (SELECT 1 FROM run_terms WHERE run_terms.run_key = run_names.run_key AND run_terms.terms @@ ?)`

	// The keys of the runs of a time: keys and times can disagree after a clock was set back. The sums keep the databases from looking
	// for the least and the greatest key in the primary key's index.
	keysOfTime = `WITH span AS (SELECT min(key + 0) AS since, max(key + 0) AS until FROM runs`
	inSpan     = ` AND run_terms.run_key >= (SELECT since FROM span) AND run_terms.run_key <= (SELECT until FROM span)`
)

// statement builds the text of a statement for a list of runs, with its parameters.
type statement struct {
	strings.Builder
	args   []any
	oldest bool // the order of the list
}

func (s *statement) add(text string, args ...any) {
	s.WriteString(text)
	s.args = append(s.args, args...)
}

// inOrder sorts by columns.
func (s *statement) inOrder(columns ...string) {
	order := ` DESC`
	if s.oldest {
		order = ` ASC`
	}
	s.add(` ORDER BY ` + strings.Join(columns, order+`, `) + order)
}

// next selects some of the rows behind a place in the list.
func (s *statement) next(place []any, limit int, columns ...string) {
	than := `) < (?`
	if s.oldest {
		than = `) > (?`
	}
	s.add(` AND (`+strings.Join(columns, `, `)+than+strings.Repeat(`, ?`, len(columns)-1)+`)`, place...)
	s.inOrder(columns...)
	s.add(` LIMIT ?`, limit)
}

// Runs lists runs without the columns that lists do not show, newest first unless f.Oldest is set. The default limit is 50. The
// runs of a project are in the order of their time, those of a thread or by terms in the order of their keys.
func (r Pages) Runs(ctx context.Context, f data.RunFilter) (data.Page[data.Run], error) {
	f.Limit = cmp.Or(max(f.Limit, 0), 50)
	switch {
	case sqldb.CheckText(f.Text) != nil:
		return data.Page[data.Run]{Counted: f.Count}, nil
	case f.Searches():
		return searched(ctx, r, func(ctx context.Context, r Pages) (data.Page[data.Run], error) { return r.runs(ctx, &f) })
	}
	return r.runs(ctx, &f)
}

func (r Pages) runs(ctx context.Context, f *data.RunFilter) (data.Page[data.Run], error) {
	after, err := r.place(ctx, f, f.BeforeKey)
	if err != nil {
		return data.Page[data.Run]{}, err
	}
	begin, err := r.place(ctx, f, 0)
	if err != nil {
		return data.Page[data.Run]{}, err
	}
	var by search
	if f.ByTerms() {
		if by, err = r.searchFor(ctx, f); err != nil {
			return data.Page[data.Run]{}, err
		}
	}
	count := statement{oldest: f.Oldest}
	if f.Count {
		count.countRuns(f, by, begin)
	} else {
		count.add(`SELECT 0`)
	}
	list := listOfRuns(f, by, &count, after)
	// The last two parameters are the limit and the size of the page, which sqldb.PageOf adds.
	p, err := sqldb.PageOf(ctx, r.q, rows.ScanRun, data.PageBytes, f.Limit, list.String(), list.args[:len(list.args)-1]...)
	return sqldb.Counted(ctx, r.q, p, err, f.Count, count.String(), count.args...)
}

// listOfRuns returns the statement of a page but for its last parameter.
func listOfRuns(f *data.RunFilter, by search, count *statement, after []any) *statement {
	s := &statement{oldest: f.Oldest}
	s.add(listRuns+count.String()+pageOfRuns, count.args...)
	s.inOrder(`at`, `sized_key`)
	s.add(sizesOfRuns)
	s.keysOfRuns(f, by, after, f.Limit+1)
	s.add(thatFit)
	s.inOrder(`at`, `sized_key`)
	s.add(thatAreShown)
	s.inOrder(`sized.at`, `sized_key`)
	return s
}

// statuses are all that a run may have. An index has the runs of a user by their statuses.
var statuses = []data.Status{data.Queued, data.Running, data.Waiting, data.Completed, data.Failed, data.Cancelled}

// indexedPart returns the part of a filter that an index serves, and whether the filter has other parts: the thread, else the user with the
// statuses, else the statuses unless most runs may have one of them, else the agent or workflow, or the statuses.
func indexedPart(f *data.RunFilter) (part data.RunFilter, rest bool) {
	part = data.RunFilter{Project: f.Project, Since: f.Since, Until: f.Until}
	switch {
	case f.ThreadKey != 0:
		part = data.RunFilter{Project: f.Project, ThreadKey: f.ThreadKey}
	case f.User != "":
		if part.User, part.Statuses = f.User, f.Statuses; len(f.Statuses) == 0 {
			part.Statuses = statuses
		}
	case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, data.Completed):
		part.Statuses = f.Statuses
	case f.Agent != "" || f.WorkflowID != "":
		part.Agent, part.WorkflowID = f.Agent, f.WorkflowID
	default:
		part.Statuses = f.Statuses
	}
	return part, f.Searches()
}

// countRuns counts the runs that a filter admits, up to one more than sqldb.MaxCount.
func (s *statement) countRuns(f *data.RunFilter, by search, begin []any) {
	s.add(countSome)
	s.keysOfRuns(f, by, begin, sqldb.MaxCount+1)
	s.add(asCounted)
}

// keysOfRuns selects the next keys of those runs, and their times.
func (s *statement) keysOfRuns(f *data.RunFilter, by search, after []any, limit int) {
	if f.ByTerms() {
		s.keysByTerms(f, by, after, limit)
		return
	}
	part, rest := indexedPart(f)
	keys, order := keysByTime, []string{`created_at`, `key`}
	if !ordersByTime(f) {
		keys, order = keysByKey, order[1:]
	}
	one := func(part *data.RunFilter) {
		where, args := filterRuns(part)
		s.add(keys+where, args...)
		if rest {
			fitting(s, f, `runs.key`)
		}
		s.next(after, limit, order...)
	}
	if len(part.Statuses) < 2 {
		one(&part)
		return
	}
	s.add(`SELECT key, at FROM (`)
	ofEach(s, &part, one)
	s.add(`) AS several`)
	s.inOrder(`at`, `key`)
	s.add(` LIMIT ?`, limit)
}

// keysByTerms selects the next keys of the runs that a search finds, and of those of which the text is a name.
func (s *statement) keysByTerms(f *data.RunFilter, by search, after []any, limit int) {
	s.add(`SELECT key, at FROM (`)
	if by.terms != "" {
		s.add(`SELECT * FROM (`)
		s.keysBySearch(f, by, after, limit)
		s.add(`) AS plain`)
	}
	if by.terms != "" && f.Text != "" {
		s.add(` UNION `)
	}
	if f.Text != "" {
		s.add(`SELECT * FROM (`+keysByName, f.Project, f.Text)
		if f.User != "" {
			s.add(nameOfUser, f.User)
		}
		fitting(s, f, `run_names.run_key`)
		if by.facts != "" {
			s.add(hasFacts, by.facts)
		}
		s.next(after, limit, `run_names.run_key`)
		s.add(`) AS plain`)
	}
	s.add(`) AS several`)
	s.inOrder(`at`, `key`)
	s.add(` LIMIT ?`, limit)
}

// keysBySearch selects the next keys of the runs that a search finds.
func (s *statement) keysBySearch(f *data.RunFilter, by search, after []any, limit int) {
	span := ``
	if f.User == "" && !f.Since.IsZero() { // a user has few
		where, args := filterRuns(&data.RunFilter{Project: f.Project, Since: f.Since, Until: f.Until})
		s.add(keysOfTime+where+`) `, args...)
		span = inSpan
	}
	s.add(keysByTerms+span, by.terms)
	if len(f.Statuses) > 0 || f.Agent != "" || !f.Since.IsZero() || !f.Until.IsZero() { // of which there are no terms
		fitting(s, f, `run_terms.run_key`)
	}
	s.next(after, limit, `run_terms.run_key`)
}

// fitting requires that the run with a key fits f by its columns.
func fitting(s *statement, f *data.RunFilter, key string) {
	where, args := filterRuns(f)
	s.add(` AND (SELECT `+strings.TrimPrefix(where, "\nWHERE ")+` FROM runs AS fitting WHERE fitting.key = `+key+`)`, args...)
}

// ofEach selects from each of several statuses: the index has the runs of one status in order.
func ofEach(s *statement, f *data.RunFilter, one func(*data.RunFilter)) {
	for i, status := range f.Statuses {
		if i > 0 {
			s.add(` UNION ALL `)
		}
		of := *f
		of.Statuses = []data.Status{status}
		s.add(`SELECT * FROM (`)
		one(&of)
		s.add(`) AS plain`)
	}
}

func ordersByTime(f *data.RunFilter) bool {
	return f.Project != "" && f.ThreadKey == 0 && !f.ByTerms()
}

// place returns the position after which a page begins: that of the run with the key, or the begin of the list.
func (r Pages) place(ctx context.Context, f *data.RunFilter, key int64) ([]any, error) {
	at := endOfTime
	switch {
	case key != 0 && ordersByTime(f):
		var err error
		at, err = sqldb.One(ctx, r.q, sqldb.Scalar[time.Time], selectCreated, key, f.Project)
		if errors.Is(err, data.ErrNotFound) { // then no run follows
			if at = time.UnixMilli(0); f.Oldest {
				at = endOfTime
			}
		} else if err != nil {
			return nil, err
		}
	case key == 0 && f.Oldest:
		at = time.UnixMilli(0)
	case key == 0:
		key = math.MaxInt64
	}
	if ordersByTime(f) {
		return []any{sqldb.Time(at), key}, nil
	}
	return []any{key}, nil
}

// filterRuns returns the WHERE clause of a filter, all but its text and its cursor.
func filterRuns(f *data.RunFilter) (string, []any) {
	var query strings.Builder
	args := make([]any, 0, 10)
	query.WriteString("\nWHERE TRUE")
	and := func(cond string, more ...any) {
		query.WriteString(` AND `)
		query.WriteString(cond)
		args = append(args, more...)
	}
	if f.Project != "" {
		and(`project_id = ?`, f.Project)
	}
	if f.User != "" {
		and(`user_id = ?`, f.User)
	}
	if f.ThreadKey != 0 {
		and(`thread_key = ?`, f.ThreadKey)
	}
	if n := len(f.Statuses); n == 1 {
		and(`status = ?`, string(f.Statuses[0]))
	} else if n > 1 {
		var in []any
		for _, s := range f.Statuses {
			in = append(in, string(s))
		}
		and(`status IN (?`+strings.Repeat(`, ?`, n-1)+`)`, in...)
	}
	if f.Agent != "" { // whose runs are of the workflow of its name
		and(`workflow_id = ?`, f.Agent)
		and(`agent = ?`, f.Agent)
	}
	if f.WorkflowID != "" {
		and(`workflow_id = ?`, f.WorkflowID)
	}
	if !f.Since.IsZero() {
		and(`created_at >= ?`, sqldb.Time(f.Since))
	}
	if !f.Until.IsZero() {
		and(`created_at < ?`, sqldb.Time(f.Until))
	}
	return query.String(), args
}
