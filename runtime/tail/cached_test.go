package tail

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// messageRows is a store with the messages of one thread.
type messageRows struct {
	data.Reader

	rows   []data.Message // by seq
	last   int64          // event
	reads  int
	during func() // called while a read is under way
}

func (s *messageRows) Messages(_ context.Context, _, upTo int64, limit int) (list []data.Message, _ error) {
	s.reads++
	for _, m := range s.rows {
		if m.State == data.MessageConsumed && (upTo == 0 || m.EventID <= upTo) {
			list = append(list, m)
		}
	}
	list = slices.Clone(list[max(len(list)-limit, 0):])
	if s.during != nil {
		s.during()
	}
	return list, nil
}

// commit is a transaction of the store until it is delivered.
type commit struct {
	recs []*Record
	rows []data.Row
	ch   *Change
}

// write writes a random commit: of new, changed, hidden, retracted or queued messages, or a deletion.
func (s *messageRows) write(r *rand.Rand) (c commit) {
	put := func(m *data.Message) {
		row := *m
		row.Encoded = nil
		c.rows = append(c.rows, &row)
	}
	event := func() {
		s.last++
		c.recs = append(c.recs, NewRecord(s.last, 1, agui.StepStarted{StepName: "step"}, 1))
	}
	some := func() *data.Message { return &s.rows[r.IntN(len(s.rows))] }
	switch kind := r.IntN(40) - 20; {
	case kind < 12 || len(s.rows) == 0:
		event()
		for range 1 + r.IntN(3) {
			n := int64(len(s.rows) + 1)
			m := data.Message{RunKey: n / 5, Seq: n, EventID: s.last, State: data.MessageConsumed, Message: agui.Message{
				ID: fmt.Sprint("m", n), Role: agui.RoleUser, Content: strings.Repeat("x", r.IntN(100)),
			}}
			s.rows = append(s.rows, m)
			put(&m)
		}
	case kind < 15:
		event()
		m := some()
		m.Content += fmt.Sprint(" changed at ", s.last)
		put(m)
	case kind < 16:
		event()
		m := some()
		if m.State = data.MessageHidden; r.IntN(2) == 0 {
			put(m)
		} else {
			c.rows = append(c.rows, &data.Hide{ID: m.ID})
		}
	case kind < 17:
		event()
		from := some().Seq
		c.rows = append(c.rows, &data.Hide{FromSeq: from})
		for i := range s.rows {
			if s.rows[i].Seq >= from {
				s.rows[i].State = data.MessageHidden
			}
		}
		if m := some(); m.Seq >= from { // it is shown again
			m.State = data.MessageConsumed
			put(m)
		}
	case kind < 18:
		run := some().RunKey
		c.rows, c.ch = append(c.rows, &data.Delete{RunKey: run}), &Change{Removed: true}
		s.rows = slices.DeleteFunc(s.rows, func(m data.Message) bool { return m.RunKey == run && m.Seq < int64(len(s.rows)) })
		for i := range s.rows { // so that the next message has the next seq
			s.rows[i].Seq = int64(i + 1)
		}
	default:
		put(&data.Message{State: data.MessageQueued, Message: agui.Message{ID: "queued", Role: agui.RoleUser}})
		c.rows = append(c.rows, &data.Hide{RunKey: 1, Queued: true})
	}
	return c
}

// Commits are in the store before they are delivered, and both can happen during a read.
func TestMessages_AreThoseOfTheRows(t *testing.T) {
	asked, read := 0, 0
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
		store := new(messageRows)
		logs := New(Config{Store: store, RingsBytes: 1 << 20})
		if seed%5 == 0 {
			logs.cfg.RingsBytes = 20_000 // some are evicted
		}
		var late []commit
		deliver := func() {
			for _, c := range late {
				logs.Deliver(1, c.recs, c.rows, c.ch)
			}
			late = nil
		}
		for range 100 {
			late = append(late, store.write(r))
			if late[len(late)-1].ch != nil || r.IntN(6) > 0 { // a deletion has no event that readers could know
				deliver()
			}
			if store.during = nil; r.IntN(10) == 0 {
				store.during = func() {
					store.during = nil
					late = append(late, store.write(r))
					deliver()
				}
			}
			limit := []int{3, 10, LatestMessages}[r.IntN(3)]
			upTo := max(store.last-int64(r.IntN(2)*r.IntN(5)), 1)
			if len(late) > 0 {
				upTo = max(store.last, 1)
			}
			overtaken := store.during != nil
			got, err := logs.Messages(t.Context(), 1, upTo, limit)
			if err != nil {
				t.Fatal(err)
			}
			asked++
			if overtaken { // the rows are other ones by now
				continue
			}
			store.reads, read = 0, read+store.reads
			want, _ := store.Messages(t.Context(), 1, upTo, limit)
			store.reads = 0
			if want, got := contents(want), contents(got); !slices.Equal(want, got) {
				t.Fatalf("seed %d, up to event %d, limit %d (-rows +cache):\n%s", seed, upTo, limit, cmp.Diff(want, got))
			}
			if n := logs.messages.bytes + logs.Bytes(); n > int64(logs.cfg.RingsBytes) {
				t.Fatalf("seed %d: %d bytes are cached", seed, n)
			}
		}
	}
	if read > asked*2/3 {
		t.Errorf("%d reads for %d requests", read, asked)
	}
}

func contents(rows []data.Message) (list []string) {
	for _, m := range rows {
		list = append(list, fmt.Sprint(m.Seq, m.ID, m.EventID, m.Content))
	}
	return list
}
