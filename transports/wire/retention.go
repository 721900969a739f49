package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
)

// Retention is a project's retention times and the data that is due.
type Retention struct {
	Days Days `json:"days"`
	Due  Due  `json:"due"`
}

// Days are retention times. Null means forever.
type Days struct {
	Runs        *float64 `json:"runs"`   // with all that is their own
	Events      *float64 `json:"events"` // of runs that stay
	Attachments *float64 `json:"attachments"`
	Audit       *float64 `json:"audit"`
}

// Due is the data that the next retention pass removes.
type Due struct {
	Runs        int   `json:"runs"`
	Stripped    int   `json:"stripped"` // runs of which the events alone go
	Events      int   `json:"events"`   // of both
	Bytes       int64 `json:"bytes"`    // of the events, about
	Attachments int   `json:"attachments"`
	Audit       int   `json:"audit"`
	Whole       bool  `json:"whole"` // this is all; else there was more than one request looks at
}

// NewRetention returns retention times and due data.
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
