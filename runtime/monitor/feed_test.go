package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// idle is a database without runs.
type idle struct{ data.Reader }

func (idle) ByProject() data.ByProject { return empty{} }

// empty is a project without runs.
type empty struct{ data.ByProject }

func (empty) Runs(context.Context, data.RunFilter) (p data.Page[data.Run], err error) { return p, nil }

func (empty) Threads(context.Context, data.ThreadFilter) (p data.Page[data.ListedThread], err error) {
	return p, nil
}

func (idle) Heads(_ context.Context, keys []int64) (heads []data.RunHead, err error) {
	for _, key := range keys {
		heads = append(heads, data.RunHead{Key: key})
	}
	return heads, nil
}

// stage is a project with a feed that the test writes.
type stage struct {
	feeds   *Feeds
	project string
	run     *watched
	last    int64
}

func newStage(tb testing.TB, project string, feeds *Feeds) *stage {
	tb.Helper()
	if feeds == nil {
		feeds = New(idle{}, nil, func(string) []string { return []string{"echo"} })
		tb.Cleanup(feeds.Close)
	}
	return &stage{feeds: feeds, project: project, run: &watched{key: 1, user: "u"}}
}

// records returns the records of events of the one run.
func (s *stage) records(evs ...agui.Event) (recs []*tail.Record) {
	for _, ev := range evs {
		s.last++
		recs = append(recs, tail.NewRecord(s.last, 1, ev, len(ev.AppendJSON(nil, agui.Stored))))
	}
	return recs
}

func (s *stage) write(evs ...agui.Event) { s.show(s.records(evs...)) }

func (s *stage) show(recs []*tail.Record) {
	f := s.feeds.feeds[s.project]
	f.update(func() { f.show(s.run, recs, ends{closers: len(recs)}) })
}

func (s *stage) watch() *Monitor { return s.feeds.Open(s.project, "u", false, Query{}) }

func delta(text string) agui.Event {
	return agui.TextMessageContent{Base: agui.Base{ThreadID: "t", RunID: "r", Agent: "echo"}, MessageID: "m", Delta: text}
}

func TestFeeds_AreBoundedAndDropped(t *testing.T) {
	t.Parallel()
	s := newStage(t, "p", nil)
	m := s.feeds
	big := strings.Repeat("x", 1<<17)
	w := s.watch()
	epoch := w.ID()
	for range 100 {
		s.write(delta(big))
	}
	if f := m.feeds["p"]; f.bytes > feedBytes || f.last-f.first < 3 {
		t.Errorf("one feed keeps %d bytes in %d notices", f.bytes, f.last-f.first+1)
	}
	s.write(delta(strings.Repeat(big, 40)))
	if f := m.feeds["p"]; f.first != f.last {
		t.Errorf("beside a notice that is too large there are %d", f.last-f.first)
	}
	s.write(delta("x"))

	var all []*Monitor
	for i := range 100 {
		other := newStage(t, fmt.Sprint("p", i), s.feeds)
		all = append(all, other.watch())
		for range 20 {
			other.write(delta(big))
		}
	}
	sum := 0
	for _, f := range m.feeds {
		sum += f.bytes
	}
	if sum > allBytes+100*(3*len(big)+512) { // each ring keeps its newest notice
		t.Errorf("all feeds keep %d bytes", sum)
	}

	for _, w := range all {
		w.Close()
	}
	m.Sweep(time.Now())
	if len(m.feeds) != 101 {
		t.Errorf("too early, %d feeds are left", len(m.feeds))
	}
	m.Sweep(time.Now().Add(unwatched + time.Minute))
	if len(m.feeds) != 1 || m.feeds["p"] == nil {
		t.Errorf("%d feeds are left", len(m.feeds))
	}
	w.Close()
	m.Sweep(time.Now().Add(2*unwatched + 2*time.Minute))
	if len(m.feeds) != 0 {
		t.Errorf("%d feeds are left", len(m.feeds))
	}
	again := s.watch()
	defer again.Close()
	if strings.Split(again.ID(), "-")[0] == strings.Split(epoch, "-")[0] {
		t.Error("the feed that follows a forgotten one has its epoch")
	}
}

// A reader that falls behind the window is dropped. The position of one that may see nothing advances.
func TestMonitor_FallsBehind(t *testing.T) {
	t.Parallel()
	s := newStage(t, "p", nil)
	slow, neighbour := s.watch(), s.feeds.Open(s.project, "neighbour", false, Query{})
	defer slow.Close()
	defer neighbour.Close()
	for range window / 4 {
		s.write(delta("x"))
	}
	if notices, err := neighbour.Next(t.Context()); err != nil || len(notices) > 0 {
		t.Errorf("the neighbour gets %d notices, %v", len(notices), err)
	}
	for range window {
		s.write(delta("x"))
	}
	if _, err := slow.Next(t.Context()); !errors.Is(err, ErrLagged) {
		t.Errorf("the slow reader gets %v", err)
	}
}

// A notice of a result must not keep the call's arguments in memory.
func TestNotice_ResultDropsArguments(t *testing.T) {
	t.Parallel()
	s := newStage(t, "p", nil)
	w := s.watch()
	defer w.Close()
	const calls, args = 50, 1 << 20
	for i := range calls {
		id := fmt.Sprint(i)
		s.write(agui.ToolCallStart{ToolCallID: id, ToolCallName: "t"},
			agui.ToolCallArgs{ToolCallID: id, Delta: `{"a":"` + strings.Repeat("x", args) + `"}`}, agui.ToolCallEnd{ToolCallID: id})
	}
	for i := range calls {
		s.write(agui.ToolCallResult{MessageID: "m", ToolCallID: fmt.Sprint(i), Content: "x"})
	}
	f, kept, seen := s.feeds.feeds["p"], 0, make(map[*call]bool)
	for at := f.first; at <= f.last; at++ {
		if n := f.notice(at); n.call != nil && !seen[n.call] {
			seen[n.call] = true
			kept += n.call.size
		}
	}
	if kept > feedBytes {
		t.Errorf("the notices keep %d bytes of arguments", kept)
	}
	s.write(agui.ToolCallStart{ToolCallID: "open", ToolCallName: "t"}, agui.ToolCallArgs{ToolCallID: "open", Delta: "{}"}, agui.RunFinished{})
	if run := f.notice(f.last).run; len(run.calls) != 0 {
		t.Errorf("a run that has ended keeps %d calls", len(run.calls))
	}
}

func TestFeeds_BoundUnwatched(t *testing.T) {
	t.Parallel()
	s := newStage(t, "watched", nil)
	w := s.watch()
	defer w.Close()
	for i := range 2 * maxFeeds {
		newStage(t, fmt.Sprint("p", i), s.feeds).watch().Close()
	}
	m := s.feeds
	if len(m.feeds) > maxFeeds || m.feeds["watched"] == nil {
		t.Errorf("there are %d feeds", len(m.feeds))
	}
	first, last := newStage(t, "p0", s.feeds), newStage(t, fmt.Sprint("p", 2*maxFeeds-1), s.feeds)
	if m.feeds[first.project] != nil || m.feeds[last.project] == nil {
		t.Error("the one that was left last is gone first")
	}
}

func TestNotice_ArgumentsAreAnObject(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		``:                    `{}`,
		` {"a": [1, "<"]} `:   `{"a":[1,"<"]}`,
		"{\"a\":\n1}":         `{"a":1}`,
		`[1,2]`:               `{"arguments":"[1,2]"}`,
		`"text"`:              `{"arguments":"\"text\""}`,
		`{"a":`:               `{"arguments":"{\"a\":"}`,
		`null`:                `{"arguments":"null"}`,
		"not \xff JSON <":     `{"arguments":"not ` + "\uFFFD" + ` JSON <"}`,
		`{"a":1} {"b":2}`:     `{"arguments":"{\"a\":1} {\"b\":2}"}`,
		"{\"\xff\":\"\xff\"}": "{\"\uFFFD\":\"\uFFFD\"}",
	} {
		c := call{args: []string{args[:len(args)/2], args[len(args)/2:]}}
		if got := string(c.arguments()); got != want {
			t.Errorf("%q becomes %s, want %s", args, got, want)
		}
	}
}

func TestNotice_IsOneLine(t *testing.T) {
	t.Parallel()
	s := newStage(t, "p", nil)
	w := s.watch()
	defer w.Close()
	s.write(agui.ToolCallStart{ToolCallID: "c", ToolCallName: "t"}, agui.ToolCallArgs{ToolCallID: "c", Delta: "{\"a\":\r\n1}"},
		agui.ToolCallEnd{ToolCallID: "c"}, delta("a\r\nb\u2028c"),
		agui.ToolCallResult{MessageID: "m", ToolCallID: "c", Content: "x\n\ny", Output: &agui.ToolOutput{ToolName: "t"}})
	notices, err := w.Next(t.Context())
	if err != nil || len(notices) != 3 {
		t.Fatalf("got %d notices, %v", len(notices), err)
	}
	for _, n := range notices {
		for _, v := range []View{EventsView, AGUIView} {
			if f := n.JSON(v); !json.Valid(f) || bytes.ContainsAny(f, "\n\r") {
				t.Errorf("got %q", f)
			}
		}
		if first, again := n.JSON(EventsView), n.JSON(EventsView); &first[0] != &again[0] {
			t.Error("a notice is encoded twice")
		}
	}
}

func TestNotice_UserTextIsNoToken(t *testing.T) {
	t.Parallel()
	s := newStage(t, "p", nil)
	w := s.watch()
	defer w.Close()
	s.write(agui.TextMessageContent{MessageID: "m", Delta: "appended"}, delta("answer"))
	notices, err := w.Next(t.Context())
	if err != nil || len(notices) != 1 || !strings.Contains(string(notices[0].JSON(EventsView)), "answer") {
		t.Errorf("got %v, %v", notices, err)
	}
}

// BenchmarkShow measures the cost of a feed for each event that it reads.
func BenchmarkShow(b *testing.B) {
	s := newStage(b, "p", nil)
	s.watch().Close()
	evs := make([]agui.Event, 100)
	for i := range evs {
		evs[i] = delta("abcd")
	}
	recs := s.records(evs...)
	b.ReportAllocs()
	for b.Loop() {
		s.show(recs)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(recs)), "ns/event")
}

// BenchmarkNotice measures the encoding of a token, which all its readers share.
func BenchmarkNotice(b *testing.B) {
	for v, name := range map[View]string{EventsView: "events", AGUIView: "agui"} {
		b.Run(name, func(b *testing.B) {
			s := newStage(b, "p", nil)
			w := s.watch()
			defer w.Close()
			s.write(delta("abcd"))
			notices, err := w.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				notices[0].forms[v].Store(nil)
				notices[0].JSON(v)
			}
		})
	}
}
