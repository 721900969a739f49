package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
)

// Retention is how long what is over is kept in a project, and what of it has been kept long enough.
type Retention struct {
	Days Days `json:"days"`
	Due  Due  `json:"due"`
}

// Days are how long things are kept. Null is for good.
type Days struct {
	Runs        *float64 `json:"runs"`   // with all that is their own
	Events      *float64 `json:"events"` // of runs that stay
	Attachments *float64 `json:"attachments"`
	Audit       *float64 `json:"audit"`
}

// Due is what goes with the server's next look.
type Due struct {
	Runs        int   `json:"runs"`
	Stripped    int   `json:"stripped"` // runs of which the events alone go
	Events      int   `json:"events"`   // of both
	Bytes       int64 `json:"bytes"`    // of the events, about
	Attachments int   `json:"attachments"`
	Audit       int   `json:"audit"`
	Whole       bool  `json:"whole"` // this is all; else there was more than one request looks at
}

// NewRetention returns how long things are kept, and what is due.
func NewRetention(r runtime.Retention, due *runtime.Retired, whole bool) Retention {
	days := func(d time.Duration) *float64 {
		if d <= 0 {
			return nil
		}
		return new(d.Hours() / 24)
	}
	return Retention{
		Days: Days{days(r.Runs), days(r.Events), days(r.Attachments), days(r.Audit)},
		Due:  Due{due.Runs, due.Stripped, due.Events, due.Bytes, due.Attachments, due.Audit, whole},
	}
}
