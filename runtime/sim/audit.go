package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// view is a thread at the end of its history.
type view struct {
	n    int    // number of the thread
	name string // name in the story
	th   runtime.Thread
	runs []runtime.Run // in the order of their creation
	log  []event
	cut  bool // events were removed

	messages map[string][]runtime.Message // by run, in the order of REST
	history  []runtime.Message            // in the order of the history endpoint
}

// event is an event of a log. Id 0 is a frame in place of removed events.
type event struct {
	id   int64
	run  string // the run's first name
	as   string // the run's name in the span
	ev   agui.Event
	json string
}

// settle waits until no run is RUNNING or claimable and no question is about to expire. After a timeout it reports the
// stuck run.
func (s *servers) settle() {
	var rule Rule
	var restless string
	quiet := 0
	patience := 720
	if s.h.sleeps() > 0 && s.h.Does(doClock) {
		patience *= 20
	}
	for range patience { // three minutes: several processes may have stood still in turn, and a run that was theirs waits until its server is calm
		if s.server() == nil {
			return
		}
		if rule, restless = s.restless(); restless != "" {
			quiet = 0
			s.sleep(250 * time.Millisecond)
			continue
		}
		if quiet++; quiet == 2 {
			return
		}
		s.sleep(300 * time.Millisecond) // a run that is about to make room for another looks idle, also while a read for that is tried again
	}
	s.find(rule, "%s", restless)
}

// restless is process.restless of the first process that is.
func (s *servers) restless() (rule Rule, why string) {
	all := s.serving()
	if len(all) < len(s.cur) {
		return RuleStart, "a server has not begun"
	}
	for _, p := range all {
		if s.several() && p.fenced() {
			return RuleFence, fmt.Sprintf("%s has not noticed that it was fenced", p)
		}
		if rule, why = p.restless(); why != "" {
			return rule, why
		}
	}
	return rule, why
}

// owned reports whether a serving process executes a RUNNING run, or may.
func (s *servers) owned(r *runtime.Run) bool {
	return !s.several() || slices.ContainsFunc(s.serving(), func(p *process) bool { return p.instance == r.Owner })
}

// restless returns the activity that has not ended, and the rule that it breaks if it never ends.
func (p *process) restless() (Rule, string) {
	if p.unsure.Load() {
		return RuleStuck, fmt.Sprintf("%s asks what became of its commit", p)
	}
	runs, err := p.openRuns()
	if err != nil {
		return RuleStuck, fmt.Sprintf("the runs cannot be read: %v", err)
	}
	if i := slices.IndexFunc(runs, func(r runtime.Run) bool { return r.Status == runtime.Running }); i >= 0 {
		if r := &runs[i]; !p.s.owned(r) {
			return RuleOrphan, fmt.Sprintf("run %s is RUNNING, and its server %q has ended", short(r.ID), r.Owner)
		}
		return RuleStuck, fmt.Sprintf("run %s is RUNNING", short(runs[i].ID))
	}
	waiting := make(map[int64]bool)
	for i := range runs {
		if r := &runs[i]; r.Parked() {
			return RuleStuck, fmt.Sprintf("run %s is parked", short(r.ID))
		} else if r.Status == runtime.Waiting {
			asks, why := p.waits(r)
			if why != "" {
				return RuleStuck, why
			}
			waiting[r.ThreadKey] = asks
		}
	}
	for i := range runs {
		if r := &runs[i]; r.Status == runtime.Queued && !waiting[r.ThreadKey] {
			return RuleStuck, fmt.Sprintf("run %s is QUEUED and nothing is before it", short(r.ID))
		}
	}
	return RuleRoom, p.occupied()
}

// openRuns returns all runs that have not ended.
func (p *process) openRuns() (all []runtime.Run, err error) {
	open := []runtime.Status{runtime.Running, runtime.Waiting, runtime.Queued}
	for _, u := range users[:max(p.w.h.Users, 1)] {
		runs, err := p.rt.Runs.List(p.w.ctx, u, runtime.RunFilter{Statuses: open, Limit: 500})
		if all = append(all, runs.Rows...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ownerOf returns a run's owner.
func ownerOf(r *runtime.Run) runtime.Caller {
	return runtime.MustCaller(r.Project, r.User, runtime.RoleUser)
}

// waits reports whether a WAITING run has a question to a person, and an error if its waiting is illegal.
func (p *process) waits(r *runtime.Run) (asks bool, why string) {
	open, err := p.rt.Runs.Interrupts(p.w.ctx, ownerOf(r), r.ID)
	if err != nil {
		return false, fmt.Sprintf("run %s is WAITING and its questions cannot be read: %v", short(r.ID), err)
	}
	if len(open) == 0 {
		return false, fmt.Sprintf("run %s is WAITING for nothing", short(r.ID))
	}
	for i := range open {
		asks = asks || open[i].ToolCallID != open[i].ID
		at, err := time.Parse(time.RFC3339, open[i].ExpiresAt)
		switch {
		case err != nil || time.Until(at) > time.Hour: // never, or as late as an approval
		case time.Since(at) < 5*time.Second:
			return asks, fmt.Sprintf("run %s is WAITING for a question that expires", short(r.ID))
		default:
			return asks, fmt.Sprintf("run %s is WAITING for a question that has expired", short(r.ID))
		}
	}
	return asks, ""
}

// checker checks the final state of a history, which it reads from a process.
type checker struct {
	*callers
	p *process
}

// audit checks the final state of a history.
func (c *checker) audit() {
	var views []*view
	convs := make(map[string]*view)
	for n := 1; n <= threadsEach*max(c.h.Users, 1); n++ {
		v, err := c.p.view(n)
		if err != nil {
			c.find(RuleAck, "thread %d cannot be read: %v", n, err)
		}
		if v == nil {
			continue
		}
		convs[v.th.ConversationID] = v
		views = append(views, v)
		c.checkActive(v.runs)
		f := c.checkLog(v)
		c.checkRows(v, f)
		c.checkSnapshots(v)
		c.checkStatuses(v)
		c.checkWoken(v)
		c.checkSteps(v)
		c.checkRetired(v)
		c.checkLimit(v)
		c.checkRounds(v)
	}
	c.checkAlike(views)
	c.checkSaid(views)
	c.checkReaders(convs)
	c.checkFollowers(convs)
	c.checkClients()
	c.checkReplies(convs)
	c.checkTools(convs)
	c.final = views
}

// checkAlike checks that all processes show the threads as the first one does.
func (c *checker) checkAlike(views []*view) {
	for _, p := range c.serving() {
		for _, v := range views {
			if p == c.p {
				continue
			}
			other, err := p.view(v.n)
			if err != nil || other == nil {
				c.find(RuleAlike, "thread %s cannot be read from %s: %v", v.name, p, err)
			} else if got, want := other.timeless, v.timeless; !other.equals(v) && got() != want() {
				c.find(RuleAlike, "%s shows of thread %s:\n%s\nand %s:\n%s", p, v.name, got(), c.p, want())
			}
		}
	}
}

// equals reports whether two views of a thread are the same in each record. Views that are not can still be alike.
func (v *view) equals(other *view) bool {
	same := func(a, b event) bool { return a.id == b.id && a.as == b.as && a.json == b.json }
	return bytes.Equal(v.th.State, other.th.State) && slices.EqualFunc(v.log, other.log, same) &&
		reflect.DeepEqual(v.runs, other.runs) && reflect.DeepEqual(v.messages, other.messages)
}

// timeless is the story of a view without the times of its records. Those that replace removed events are made when they are read.
func (v *view) timeless() string { return stamps.ReplaceAllString(strings.Join(v.story(), "\n"), "") }

var stamps = regexp.MustCompile(`,"timestamp":\d+`)

// view reads a thread, nil if there is none.
func (p *process) view(n int) (*view, error) {
	caller, name := place(n)
	th, err := p.rt.Threads.Get(p.w.ctx, caller, name)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := &view{n: n, name: fmt.Sprintf("%s of %s/%s", name, caller.Project(), caller.User()), th: th, messages: make(map[string][]runtime.Message)}
	runs, err := p.rt.Runs.List(p.w.ctx, caller, runtime.RunFilter{ThreadKey: th.Key, Limit: 500})
	if err != nil {
		return nil, err
	}
	v.runs = runs.Rows
	slices.Reverse(v.runs)
	for i := range v.runs {
		id := v.runs[i].ID
		v.messages[id], err = pages(func(after int64) (runtime.Page[runtime.Message], error) {
			return p.rt.Runs.Messages(p.w.ctx, caller, id, after, 500)
		}, func(m *runtime.Message) int64 { return m.Key })
		if err != nil {
			return nil, err
		}
	}
	if err := p.readHistory(v); err != nil {
		return nil, err
	}
	return v, p.readLog(v)
}

func (p *process) readHistory(v *view) error {
	var before *time.Time
	for {
		caller, name := place(v.n)
		h, err := p.rt.Threads.History(p.w.ctx, caller, name, before)
		if err != nil || h.Day.IsZero() {
			return err
		}
		day, err := pages(func(after int64) (runtime.Page[runtime.Message], error) {
			return p.rt.Threads.HistoryMessages(p.w.ctx, h, after, 1000)
		}, func(m *runtime.Message) int64 { return m.Seq })
		if err != nil {
			return err
		}
		v.history = append(day, v.history...)
		before = &h.Day
	}
}

// pages reads a list to its end. Large pages end early.
func pages(read func(after int64) (runtime.Page[runtime.Message], error), place func(*runtime.Message) int64) (all []runtime.Message, err error) {
	for after := int64(0); ; after = place(&all[len(all)-1]) {
		page, err := read(after)
		if all = append(all, page.Rows...); err != nil || !page.More {
			return all, err
		}
	}
}

// readLog reads the whole log from the store.
func (p *process) readLog(v *view) error {
	cur, err := p.rt.Logs.Read(p.w.ctx, v.th, 0, true)
	if err != nil {
		return err
	}
	defer cur.Close()
	first := make(map[string]string)
	for !cur.Waits() && !cur.Ended() {
		recs, err := cur.Next(p.w.ctx)
		if err != nil {
			return err
		}
		ids := idsOf(recs)
		for i, rec := range recs {
			v.cut = v.cut || isReset(rec.Event)
			as := rec.Event.Common().RunID
			if s, ok := rec.Event.(agui.RunStarted); ok && s.ParentRunID != "" {
				first[as] = s.ParentRunID
			}
			v.log = append(v.log, event{ids[i], cmp.Or(first[as], as), as, rec.Event, string(rec.JSON(agui.Stored))})
		}
	}
	return nil
}

// story describes the log and the rows.
func (v *view) story() []string {
	lines := []string{fmt.Sprintf("thread %s, state %s", v.name, v.th.State)}
	for i := range v.log {
		lines = append(lines, fmt.Sprintf("%9d  %-8s %s", v.log[i].id, short(v.log[i].as), clip(shorter(clip(v.log[i].json, 2000)), 230)))
	}
	for i := range v.runs {
		r := &v.runs[i]
		line := fmt.Sprintf("run %s %s, generation %d, attempt %d, closed by %d", short(r.ID), r.Status, r.Generation, r.Attempt, r.ClosedEvent)
		if r.Error != nil {
			line += ", " + r.Error.Code
		}
		lines = append(lines, line)
		for j := range v.messages[r.ID] {
			m := &v.messages[r.ID][j]
			text := strings.ReplaceAll(m.Text(), "\n", " ")
			lines = append(lines, fmt.Sprintf("   %d %s %s %s %s %s", m.Seq, m.State, m.Role, short(m.ID), short(m.ToolCallID), clip(text, 90)))
		}
	}
	return lines
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// minted matches ids that the engine generated.
var minted = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// shorter shortens the ids in a text.
func shorter(s string) string { return minted.ReplaceAllStringFunc(s, short) }
