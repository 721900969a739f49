package storage

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

// A list of runs that is filtered by one column (user, status, workflow or thread) and by time is read from an index in the list's
// order: a page costs as much as it shows. No index serves other filters: see lookRuns.

const (
	// The statement of a page is listRuns, the count or uncounted, pageOfRuns, the keys of the runs (which an index alone has) and thatAreShown.
	// It does not read columns that a list does not show.
	listRuns = `
SELECT r.thread_key, r.project_id, r.user_id, r.id, r.agent, r.workflow_id, r.status, r.generation, r.attempt, r.spans,
	r.span_name, r.turn, r.answered, r.owner_instance, r.replaces, r.roll_back, r.closed_event_id, r.error, r.created_at,
	r.queued_at, r.started_at, r.finished_at, r.key, NULL, NULL, COALESCE(i.input_query, ''), r.output_summary,
	r.usage, i.context_item_ids, NULL, COALESCE(i.parent_run, ''), t.thread_id, t.title, t.conversation_id, (`
	pageOfRuns = `), sized.found
FROM (SELECT sized_key, at, found
	FROM (SELECT sized_key, at, sum(size) OVER (ORDER BY at DESC, sized_key DESC) - size AS behind, count(*) OVER () AS found
		FROM (SELECT r.key AS sized_key, page.at, COALESCE(octet_length(r.output_summary), 0) +
				COALESCE((SELECT octet_length(input_query) FROM run_inputs WHERE run_key = r.key), 0) AS size
			FROM (`
	thatAreShown = `) AS page JOIN runs r ON r.key = page.key) AS plain) AS counted
	WHERE behind < ? ORDER BY at DESC, sized_key DESC` + sizedFirst + `
JOIN runs r ON r.key = sized_key
LEFT JOIN run_inputs i ON i.run_key = r.key
JOIN threads t ON t.key = r.thread_key
ORDER BY sized.at DESC, sized_key DESC`

	// The keys of runs, in the order of the index that finds them.
	keysByTime  = `SELECT key, created_at AS at FROM runs`
	keysByKey   = `SELECT key, 0 AS at FROM runs`
	belowTime   = ` AND (created_at, key) < (?, ?)`
	belowKey    = ` AND key < ?`
	byTime      = ` ORDER BY created_at DESC, key DESC LIMIT ?`
	byKey       = ` ORDER BY key DESC LIMIT ?`
	ofTheKeys   = ` WHERE key = ANY (?)`
	ofSeveral   = `) AS several ORDER BY at DESC, key DESC LIMIT ?`
	countSome   = `SELECT count(*) FROM (SELECT 1 FROM runs`
	asCounted   = `) AS counted`
	theseByTime = listRuns + uncounted + pageOfRuns + keysByTime + ofTheKeys + byTime + thatAreShown
	theseByKey  = listRuns + uncounted + pageOfRuns + keysByKey + ofTheKeys + byKey + thatAreShown
)

// statement builds the text of a statement with its parameters.
type statement struct {
	strings.Builder
	args []any
}

func (s *statement) add(text string, args ...any) {
	s.WriteString(text)
	s.args = append(s.args, args...)
}

// oldestFirst reverses the order of a list of runs.
var oldestFirst = strings.NewReplacer(" DESC", " ASC", "(created_at, key) <", "(created_at, key) >", " AND key <", " AND key >")

// text returns the statement for a list in the order of f.
func (s *statement) text(f *model.RunFilter) string {
	if f.Oldest {
		return oldestFirst.Replace(s.String())
	}
	return s.String()
}

// Runs lists runs without the columns that lists do not show, newest first unless f.Oldest is set. The default limit is 50. The
// runs of a project are in the order of their time, those of a thread in the order of their keys.
func (r reader) Runs(ctx context.Context, f model.RunFilter) (model.Page[model.Run], error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	if f.Searches() {
		return searched(ctx, r, func() (model.Page[model.Run], error) { return r.lookRuns(ctx, &f) })
	}
	after, err := r.place(ctx, &f, f.BeforeKey)
	if err != nil {
		return model.Page[model.Run]{}, err
	}
	var count, list statement
	if count.add(uncounted); f.Count {
		count = statement{}
		countRuns(&count, &f)
	}
	list.add(listRuns)
	list.add(count.String(), count.args...)
	list.add(pageOfRuns)
	keysOfRuns(&list, &f, after, f.Limit+1)
	list.add(thatAreShown)
	// The last two parameters are the limit and the size of the page, which listed adds.
	p, err := r.listed(ctx, f.Limit, list.text(&f), list.args[:len(list.args)-1]...)
	if err != nil || !f.Count {
		return p, err
	}
	return counted(ctx, r.q, p, count.text(&f), count.args...)
}

// indexed returns the part of a filter that an index serves: the thread, else the statuses unless most runs may have one
// of them, else the user, the agent or workflow, or the statuses.
func indexed(f *model.RunFilter) model.RunFilter {
	part := model.RunFilter{Project: f.Project, Since: f.Since, Until: f.Until, Oldest: f.Oldest, Limit: f.Limit, BeforeKey: f.BeforeKey}
	few := len(f.Statuses) > 0 && !slices.Contains(f.Statuses, model.Completed)
	switch {
	case f.ThreadKey != 0:
		part.ThreadKey = f.ThreadKey
	case few:
		part.Statuses = f.Statuses
	case f.User != "":
		part.User = f.User
	case f.Agent != "" || f.WorkflowID != "":
		part.Agent, part.WorkflowID = f.Agent, f.WorkflowID
	default:
		part.Statuses = f.Statuses
	}
	return part
}

// countRuns counts the runs that a filter of one index admits, up to one more than maxCount.
func countRuns(s *statement, f *model.RunFilter) {
	order := byTime
	if !ordersByTime(f) {
		order = byKey
	}
	if len(f.Statuses) < 2 {
		where, args := filterRuns(f)
		s.add(countSome+where+order+asCounted, append(args, maxCount+1)...)
		return
	}
	s.add(`SELECT count(*) FROM (SELECT 1 FROM (`)
	ofEach(s, f, func(one *model.RunFilter) {
		where, args := filterRuns(one)
		s.add(`SELECT 1 FROM runs`+where+order, append(args, maxCount+1)...)
	})
	s.add(`) AS several LIMIT ?`+asCounted, maxCount+1)
}

// keysOfRuns selects the next keys of those runs, and their times.
func keysOfRuns(s *statement, f *model.RunFilter, after []any, limit int) {
	keys, below, order := keysByTime, belowTime, byTime
	if !ordersByTime(f) {
		keys, below, order = keysByKey, belowKey, byKey
	}
	one := func(f *model.RunFilter) {
		where, args := filterRuns(f)
		s.add(keys+where+below+order, append(append(args, after...), limit)...)
	}
	if len(f.Statuses) < 2 {
		one(f)
		return
	}
	s.add(`SELECT key, at FROM (`)
	ofEach(s, f, one)
	s.add(ofSeveral, limit)
}

// ofEach selects from each of several statuses: the index has the runs of one status in order.
func ofEach(s *statement, f *model.RunFilter, one func(*model.RunFilter)) {
	for i, status := range f.Statuses {
		if i > 0 {
			s.add(` UNION ALL `)
		}
		of := *f
		of.Statuses = []model.Status{status}
		s.add(`SELECT * FROM (`)
		one(&of)
		s.add(`) AS plain`)
	}
}

func ordersByTime(f *model.RunFilter) bool { return f.Project != "" && f.ThreadKey == 0 }

// place returns the position after which a page begins: that of the run with the key, or the begin of the list.
func (r reader) place(ctx context.Context, f *model.RunFilter, key int64) ([]any, error) {
	at := endOfTime
	switch {
	case key != 0 && ordersByTime(f):
		var err error
		at, err = one(ctx, r.q, scanTime, selectCreated, key, f.Project)
		if errors.Is(err, model.ErrNotFound) { // then no run follows
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
		return []any{ms(at), key}, nil
	}
	return []any{key}, nil
}

// filterRuns returns the WHERE clause of a filter, all but its text and its cursor.
func filterRuns(f *model.RunFilter) (string, []any) {
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
		and(`created_at >= ?`, ms(f.Since))
	}
	if !f.Until.IsZero() {
		and(`created_at < ?`, ms(f.Until))
	}
	return query.String(), args
}

// A page without an index reads so many rows at most. Then it ends, and the next one continues.
const (
	lookedAt     = 10_000
	lookedAtText = 5_000 // with text
	lookAtOnce   = 1_000
)

const (
	lookRuns = `
SELECT looked.key, looked.fits, '', '', '', '' FROM (`
	lookIntoRuns = `
SELECT looked.key, looked.fits, r.id, t.thread_id, t.title,
	COALESCE(CASE WHEN octet_length(i.input_query) <= 65536 THEN substr(i.input_query, 1, 500) END, '') FROM (`
	lookedRuns = `) AS looked`
	intoRuns   = `
JOIN runs r ON r.key = looked.key
JOIN threads t ON t.key = r.thread_key
LEFT JOIN run_inputs i ON i.run_key = r.key`
	inTheirOrder = `
ORDER BY looked.at DESC, looked.key DESC`

	countFits = `
SELECT count(CASE WHEN fits THEN 1 END), count(*) FROM (SELECT (SELECT `
	selectNamed = `
SELECT run_key FROM run_names WHERE project_id = ? AND name = ? ORDER BY user_id LIMIT 20`
)

// looked is a run that a page has read.
type looked struct {
	key   int64
	fits  bool
	texts [4]string // its first name, its thread's name and title, and the begin of its input
}

func scanLooked(rows *sql.Rows) (l looked, err error) {
	err = rows.Scan(&l.key, &l.fits, &l.texts[0], &l.texts[1], &l.texts[2], &l.texts[3])
	return l, err
}

// lookRuns is Runs for a filter that no index serves: it reads the runs that an index has, some thousand for a page. Runs
// whose name is the text come first.
func (r reader) lookRuns(ctx context.Context, f *model.RunFilter) (p model.Page[model.Run], err error) {
	known := indexed(f)
	exact, err := r.namedRuns(ctx, f)
	if err != nil {
		return p, err
	}
	exact = exact[:min(len(exact), f.Limit-1)] // a page also has others
	if f.BeforeKey == 0 {
		if p, err = r.theseRuns(ctx, f, exact, f.Limit); err != nil {
			return p, err
		}
	}
	found, behind, err := r.look(ctx, f, &known, exact, f.Limit-len(p.Rows))
	if err != nil {
		return p, err
	}
	rest, err := r.theseRuns(ctx, f, found, len(found))
	if err != nil {
		return p, err
	}
	p.Rows, p.More = append(p.Rows, rest.Rows...), behind != 0
	if p.Behind = behind; rest.More { // the page ends by its size
		p.More, p.Behind = true, rest.Rows[len(rest.Rows)-1].Key
	}
	if !f.Count {
		return p, nil
	}
	return p, r.countLooked(ctx, f, &known, &p)
}

// look returns the keys of at most limit runs that f admits, and the run after which to continue, 0 at the end.
func (r reader) look(ctx context.Context, f, known *model.RunFilter, but []int64, limit int) (found []int64, behind int64, err error) {
	behind = f.BeforeKey
	most, enough := lookedAt, false
	if f.Text != "" {
		most = lookedAtText
	}
	for n := 0; n < most && len(found) < limit; {
		after, err := r.place(ctx, known, behind)
		if err != nil {
			return nil, 0, err
		}
		query, args := lookQuery(f, known, after)
		list, err := some(ctx, r.q, scanLooked, func(l looked) bool {
			fits := l.fits && !slices.Contains(but, l.key) && l.contains(f.Text)
			if enough = fits && len(found) == limit; enough {
				return false
			}
			if behind = l.key; fits {
				found = append(found, l.key)
			}
			return true
		}, query, args...)
		switch {
		case err != nil:
			return nil, 0, err
		case enough:
			return found, behind, nil
		case len(list) < lookAtOnce:
			return found, 0, nil
		}
		n += len(list)
	}
	return found, behind, nil
}

// lookQuery returns the statement that reads the next runs.
func lookQuery(f, known *model.RunFilter, after []any) (string, []any) {
	var s, keys statement
	if f.Text == "" {
		s.add(lookRuns)
	} else {
		s.add(lookIntoRuns)
	}
	fits, args := filterRuns(f)
	keysOfRuns(&keys, known, after, lookAtOnce)
	s.add(`SELECT page.key, page.at, (SELECT `+strings.TrimPrefix(fits, "\nWHERE ")+` FROM runs WHERE runs.key = page.key) AS fits FROM (`, args...)
	s.add(keys.String(), keys.args...)
	s.add(`) AS page` + lookedRuns)
	if f.Text != "" {
		s.add(intoRuns)
	}
	s.add(inTheirOrder)
	return s.text(f), s.args
}

// contains reports whether the text is in the columns that a list shows of the run, ignoring case.
func (l *looked) contains(text string) bool {
	if text == "" {
		return true
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(l.texts[:], func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

// namedRuns returns the keys of the runs whose name is the text of f and that f admits.
func (r reader) namedRuns(ctx context.Context, f *model.RunFilter) ([]int64, error) {
	if f.Text == "" || checkString(f.Text) != nil {
		return nil, nil
	}
	keys, err := all(ctx, r.q, scalar[int64], selectNamed, f.Project, f.Text)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	query, args := fittingQuery(f, r.d.list(keys))
	return all(ctx, r.q, scalar[int64], query, args...)
}

// fittingQuery returns the statement that selects the runs that f admits from some keys.
func fittingQuery(f *model.RunFilter, keys any) (string, []any) {
	fits, args := filterRuns(f)
	return `SELECT key FROM (SELECT key FROM runs WHERE key = ANY (?)) AS page
WHERE (SELECT ` + strings.TrimPrefix(fits, "\nWHERE ") + ` FROM runs WHERE runs.key = page.key) ORDER BY key LIMIT 20`, append([]any{keys}, args...)
}

// listed returns the page of at most limit runs that a statement selects.
func (r reader) listed(ctx context.Context, limit int, query string, args ...any) (model.Page[model.Run], error) {
	return pageOf(ctx, r.q, scanRunAnd, model.PageBytes, limit, query, args...)
}

// theseRuns returns the runs of these keys, in the list's order.
func (r reader) theseRuns(ctx context.Context, f *model.RunFilter, keys []int64, limit int) (p model.Page[model.Run], err error) {
	if len(keys) == 0 {
		return p, nil
	}
	these := theseByTime
	if !ordersByTime(f) {
		these = theseByKey
	}
	var s statement
	s.add(these, r.d.list(keys))
	return r.listed(ctx, limit, s.text(f), s.args...)
}

// countLooked counts the runs that f admits, unless it would have to read more than a page does.
func (r reader) countLooked(ctx context.Context, f, known *model.RunFilter, p *model.Page[model.Run]) error {
	if f.Text != "" {
		p.Total, p.Counted = len(p.Rows), f.BeforeKey == 0 && !p.More
		return nil
	}
	start := *known
	start.BeforeKey = 0
	after, err := r.place(ctx, &start, 0)
	if err != nil {
		return err
	}
	s := countingQuery(f, known, after)
	n, err := one(ctx, r.q, func(rows *sql.Rows) (n [2]int, err error) {
		err = rows.Scan(&n[0], &n[1])
		return n, err
	}, s.text(f), s.args...)
	p.Total, p.Counted = min(max(n[0], len(p.Rows)), maxCount), n[1] <= lookedAt
	return err
}

// countingQuery returns the statement that counts the runs that a page would read, and those of them that f admits. It reads each
// run by its key: for a JOIN PostgreSQL would read the whole table.
func countingQuery(f, known *model.RunFilter, after []any) *statement {
	var s, keys statement
	fits, args := filterRuns(f)
	keysOfRuns(&keys, known, after, lookedAt+1)
	s.add(countFits+strings.TrimPrefix(fits, "\nWHERE ")+` FROM runs WHERE runs.key = page.key) AS fits FROM (`, args...)
	s.add(keys.String(), keys.args...)
	s.add(`) AS page` + asCounted)
	return &s
}
