package wire

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// maxEvents is how many bytes of events a page of a run's log holds, or one event.
const maxEvents = 4 << 20

// LogEvent is one event of a run as a projection shows it.
type LogEvent struct {
	EventID *int64          `json:"event_id"` // Null for an event that summarizes others and is not in the log.
	Event   json.RawMessage `json:"event"`
}

// EventPage is a page of a run's log.
type EventPage struct {
	Data     []LogEvent `json:"data"`
	PageInfo PageInfo   `json:"page_info"`
}

// PageInfo is the cursors to other pages of a run's log.
type PageInfo struct {
	Self  *string `json:"self"` // `after_event_id` of this page.
	First *string `json:"first"`
	// `after_event_id` of the next page. Null if no more events are stored, even if the run has not finished.
	Next *string `json:"next"`
	Prev *string `json:"prev"` // Backward pages only: `before_event_id` of the preceding page. Null at the start of the run.
}

// NewEventPage returns the page of records after the event after, in a projection. The next page begins after the event next,
// unless that is 0. A page of very large events may end early; the next one continues there.
func NewEventPage(recs []*runtime.Record, p agui.Projection, after, next int64) EventPage {
	page := EventPage{Data: make([]LogEvent, 0, len(recs)), PageInfo: PageInfo{Self: cursorAt(after)}}
	size := 0
	for _, rec := range recs {
		ev := logged(rec, p)
		if size += len(ev.Event); size > maxEvents && len(page.Data) > 0 {
			next = after
			break
		}
		page.Data = append(page.Data, ev)
		after = rec.ID
	}
	if next != 0 {
		page.PageInfo.Next = cursorAt(next)
	}
	return page
}

// NewEventPageBefore returns the page of records before the event before, 0 for the end of the log. The page before it ends before
// the event prev, if that is not 0.
func NewEventPageBefore(recs []*runtime.Record, p agui.Projection, before, prev int64) EventPage {
	page := EventPage{Data: make([]LogEvent, 0, len(recs)), PageInfo: PageInfo{Self: cursorAt(before)}}
	size := 0
	for _, rec := range slices.Backward(recs) {
		ev := logged(rec, p)
		if size += len(ev.Event); size > maxEvents && len(page.Data) > 0 {
			prev = before
			break
		}
		page.Data = append(page.Data, ev)
		before = rec.ID
	}
	slices.Reverse(page.Data)
	if prev != 0 {
		page.PageInfo.Prev = cursorAt(prev)
	}
	return page
}

// Logged returns a function that reports whether a projection of a run's log shows a record of some types; no types means all.
func Logged(p agui.Projection, types ...agui.Type) func(*runtime.Record) bool {
	return func(rec *runtime.Record) bool {
		return rec.JSON(p) != nil && (len(types) == 0 || slices.Contains(types, rec.Type(p)))
	}
}

// RunSnapshot is a run's log condensed up to one event.
type RunSnapshot struct {
	AfterEventID int64      `json:"after_event_id"` // The last event included. Continue reading after it.
	Events       []LogEvent `json:"events"`
}

// NewRunSnapshot returns the snapshot: the beginning of the run's latest span, the state, the messages, the open parts, and the
// span's end, each if there is one.
func NewRunSnapshot(s runtime.RunSnapshot) RunSnapshot {
	snap := RunSnapshot{AfterEventID: s.After, Events: []LogEvent{}}
	if s.After == 0 {
		return snap
	}
	if s.Started != nil {
		snap.Events = append(snap.Events, logged(s.Started, agui.Public))
	}
	evs := append([]agui.Event{
		agui.StateSnapshot{Snapshot: s.State},
		agui.MessagesSnapshot{Messages: s.Messages},
	}, s.Open...)
	for _, ev := range evs {
		if ev = agui.Project(ev, agui.Public); ev != nil {
			snap.Events = append(snap.Events, LogEvent{Event: ev.AppendJSON(nil, agui.Public)})
		}
	}
	if s.Ended != nil {
		snap.Events = append(snap.Events, logged(s.Ended, agui.Public))
	}
	return snap
}

func logged(rec *runtime.Record, p agui.Projection) LogEvent { return LogEvent{&rec.ID, rec.JSON(p)} }

func cursorAt(id int64) *string {
	cursor := strconv.FormatInt(id, 10)
	return &cursor
}

// EventLimit is Limit for a page of a run's log, which holds 100 events when limit is empty.
func EventLimit(limit string) (int, error) { return Limit(cmp.Or(limit, "100")) }

// EventProjection reads which projection of a run's log is wanted, agui.Public when name is empty.
func EventProjection(name string) (agui.Projection, error) {
	switch name {
	case "", "public":
		return agui.Public, nil
	case "seed":
		return agui.Seed, nil
	default:
		return 0, Refuse("invalid_projection", "projection must be public or seed")
	}
}

// EventCursor reads the id of the event behind which a page begins, 0 when cursor is empty.
func EventCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	id, err := strconv.ParseUint(cursor, 10, 63)
	if err != nil {
		return 0, Refuse("invalid_cursor", "after_event_id must be the id of an event, or 0")
	}
	return int64(id), nil
}
