package monitor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/tail"
)

// stage is a project with a feed that the test writes.
type stage struct {
	feeds *Feeds
	run   *Run
	last  int64
}

func newStage(project string, feeds *Feeds) *stage {
	if feeds == nil {
		feeds = New(func(string) []string { return []string{"echo"} })
	}
	return &stage{feeds: feeds, run: &Run{Key: 1, Project: project, User: "u"}}
}

// item returns a commit of events of the one run.
func (s *stage) item(evs ...agui.Event) *Item {
	it := &Item{Run: s.run}
	for _, ev := range evs {
		s.last++
		it.Records = append(it.Records, tail.NewRecord(s.last, 1, ev, len(ev.AppendJSON(nil, agui.Stored))))
	}
	return it
}

func (s *stage) write(evs ...agui.Event) { s.feeds.Observe(s.item(evs...)) }

func (s *stage) watch() *Monitor { return s.feeds.Open(s.run.Project, "u", false, Query{}) }

func delta(text string) agui.Event {
	return agui.TextMessageContent{Base: agui.Base{ThreadID: "t", RunID: "r", Agent: "echo"}, MessageID: "m", Delta: text}
}

func TestFeeds_AreBoundedAndDropped(t *testing.T) {
	t.Parallel()
	s := newStage("p", nil)
	m := s.feeds
	big := strings.Repeat("x", 1<<17)
	for range 100 {
		s.write(agui.RunStarted{}, delta(big))
	}
	if f := m.feeds["p"]; f == nil || f.ring != nil || f.bytes != 0 {
		t.Fatal("an unwatched feed has notices")
	}
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
		other := newStage(fmt.Sprint("p", i), s.feeds)
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
	m.Sweep(time.Now().Add(unwatched - time.Minute))
	if len(m.feeds) != 101 || m.rings != 101 {
		t.Errorf("too early, %d feeds and %d rings are left", len(m.feeds), m.rings)
	}
	m.Sweep(time.Now().Add(unwatched + time.Minute))
	if m.rings != 1 {
		t.Errorf("%d rings are left", m.rings)
	}
	for i := range 100 {
		newStage(fmt.Sprint("p", i), s.feeds).write(agui.RunFinished{})
	}
	if len(m.feeds) != 1 || m.feeds["p"].ring == nil {
		t.Errorf("%d feeds are left", len(m.feeds))
	}
	w.Close()
	s.write(agui.RunFinished{})
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

// A notice of a result must not keep the call's arguments in memory.
func TestNotice_ResultDropsArguments(t *testing.T) {
	t.Parallel()
	s := newStage("p", nil)
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

func TestFeeds_BoundUnwatchedRings(t *testing.T) {
	t.Parallel()
	s := newStage("watched", nil)
	w := s.watch()
	defer w.Close()
	for i := range 2 * maxRings {
		newStage(fmt.Sprint("p", i), s.feeds).watch().Close()
	}
	m := s.feeds
	if m.rings > maxRings || len(m.feeds) > maxRings || m.feeds["watched"] == nil {
		t.Errorf("there are %d rings and %d feeds", m.rings, len(m.feeds))
	}
	first, last := newStage("p0", s.feeds), newStage(fmt.Sprint("p", 2*maxRings-1), s.feeds)
	if m.feeds[first.run.Project] != nil || m.feeds[last.run.Project] == nil {
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
	s := newStage("p", nil)
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
	s := newStage("p", nil)
	w := s.watch()
	defer w.Close()
	s.write(agui.TextMessageContent{MessageID: "m", Delta: "appended"}, delta("answer"))
	notices, err := w.Next(t.Context())
	if err != nil || len(notices) != 1 || !strings.Contains(string(notices[0].JSON(EventsView)), "answer") {
		t.Errorf("got %v, %v", notices, err)
	}
}

// BenchmarkObserve measures the cost of monitors for each committed event.
func BenchmarkObserve(b *testing.B) {
	for _, batch := range []int{1, 100} {
		for name, look := range map[string]func(*stage) func(){
			"never watched": func(*stage) func() { return func() {} },
			"watched before": func(s *stage) func() {
				s.watch().Close()
				return func() {}
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, batch), func(b *testing.B) {
				s := newStage("p", nil)
				defer look(s)()
				evs := make([]agui.Event, batch)
				for i := range evs {
					evs[i] = delta("abcd")
				}
				s.write(agui.RunStarted{})
				it := s.item(evs...)
				s.run.feed = s.feeds.feeds["p"]
				b.ReportAllocs()
				for b.Loop() {
					s.feeds.Observe(it)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/event")
			})
		}
	}
}

// BenchmarkNotice measures the encoding of a token, which all its readers share.
func BenchmarkNotice(b *testing.B) {
	for v, name := range map[View]string{EventsView: "events", AGUIView: "agui"} {
		b.Run(name, func(b *testing.B) {
			s := newStage("p", nil)
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
