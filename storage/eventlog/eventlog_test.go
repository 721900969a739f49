package eventlog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func codec(t *testing.T) *Codec {
	t.Helper()
	c, err := NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Events come back as they were packed, from rows and from a segment, in pages of any size.
func TestPage_HasWhatWasPacked(t *testing.T) {
	var events []data.StoredEvent
	for id := int64(1); id <= 300; id++ {
		ev := data.StoredEvent{ThreadKey: 1, ID: id, RunKey: 1 + id/100, Kind: agui.TypeCustom, Payload: fmt.Appendf(nil, `{"type":"CUSTOM","n":%d}`, id)}
		switch id % 50 {
		case 1:
			ev.Kind = "OTHER" // than its payload says
		case 2:
			ev.Payload = []byte(strings.Repeat("x", maxRowSize))
		}
		events = append(events, ev)
	}
	var p Packer
	rows, err := p.Pack(events)
	if err != nil {
		t.Fatal(err)
	}
	cache := codec(t)
	segment := cache.Segment(rows)
	if segment.First != 1 || segment.Last != 300 || segment.Events != 300 {
		t.Errorf("the segment has %d to %d, %d events", segment.First, segment.Last, segment.Events)
	}
	sealed, err := cache.Rows(&segment)
	if err != nil {
		t.Fatal(err)
	}
	for form, rows := range map[string][]Row{"rows": rows, "segment": sealed} {
		for _, limit := range []int{1, 7, 64, 1000} {
			var got []data.StoredEvent
			for after := int64(0); after < 300; after = got[len(got)-1].ID {
				page := NewPage(1, after, limit)
				page.Grow(rows)
				for i := range rows {
					if err := page.Add(&rows[i]); err != nil {
						t.Fatal(err)
					}
				}
				got = append(got, page.Events...)
			}
			if diff := cmp.Diff(events, got); diff != "" {
				t.Fatalf("%s by %d (-want +got):\n%s", form, limit, diff)
			}
		}
	}
	p.Done()
}

// A row has consecutive events of one run, within its bounds.
func TestPacker_BoundsRows(t *testing.T) {
	event := func(thread, id, run int64) data.StoredEvent {
		return data.StoredEvent{ThreadKey: thread, ID: id, RunKey: run, Kind: agui.TypeCustom, Payload: []byte(`{"type":"CUSTOM"}`)}
	}
	var events []data.StoredEvent
	for id := int64(1); id <= maxRowEvents+1; id++ {
		events = append(events, event(2, id, 1), event(1, id, 1))
	}
	events = append(events, event(1, maxRowEvents+2, 2), event(1, maxRowEvents+9, 2))
	var p Packer
	rows, err := p.Pack(events)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%d/%d %d-%d", r.Thread, r.Run, r.First, r.Last))
	}
	want := []string{"1/1 1-64", "1/1 65-65", "1/2 66-66", "1/2 73-73", "2/1 1-64", "2/1 65-65"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPacker_RefusesWhatItCannotSeparate(t *testing.T) {
	for name, ev := range map[string]data.StoredEvent{
		"no thread": {ID: 1, Payload: []byte("{}")},
		"no id":     {ThreadKey: 1, Payload: []byte("{}")},
		"kind":      {ThreadKey: 1, ID: 1, Kind: "A B", Payload: []byte("{}")},
		"two lines": {ThreadKey: 1, ID: 1, Payload: []byte("{\n}")},
		"a NUL":     {ThreadKey: 1, ID: 1, Payload: []byte("{\x00}")},
		"no UTF-8":  {ThreadKey: 1, ID: 1, Payload: []byte("{\xff}")},
	} {
		if _, err := new(Packer).Pack([]data.StoredEvent{ev}); err == nil {
			t.Errorf("%s: it is packed", name)
		}
	}
}

func TestSegment_ReportsDamage(t *testing.T) {
	cache := codec(t)
	for name, s := range map[string]Segment{
		"no frame":  {Data: []byte("x")},
		"no length": {Data: cache.zip.EncodeAll([]byte{1, 1}, nil)},
		"too short": {Data: cache.zip.EncodeAll([]byte{1, 1, 1, 9, 'x'}, nil)},
	} {
		if _, err := cache.Rows(&s); err == nil {
			t.Errorf("%s: it has rows", name)
		}
	}
}

// The cache is bounded by bytes, however large segments are.
func TestCache_IsBounded(t *testing.T) {
	cache := codec(t)
	large := strings.Repeat("x", 900<<10)
	for i := range int64(10) {
		s := cache.Segment([]Row{{Thread: 1, Run: 1, First: i + 1, Last: i + 1, Payload: []byte(large + fmt.Sprint(i) + "\n")}})
		rows, err := cache.Rows(&s)
		if err != nil || len(rows) != 1 || rows[0].First != i+1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		size := 0
		for j := range cache.cached {
			size += cache.cached[j].size
		}
		if size != cache.size || size > maxCached || len(cache.cached) != min(int(i)+1, 4) {
			t.Fatalf("%d segments of %d bytes are cached, counted as %d", len(cache.cached), size, cache.size)
		}
	}
}
