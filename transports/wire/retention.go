package wire

import (
	"time"

	"github.com/batonrun/baton/runtime/retention"
)

// Retention is the retention times of a project.
type Retention struct {
	Days Days `json:"days"`
	Due  Due  `json:"due"`
}

// Days is how long finished data is kept, in days. Null means forever.
type Days struct {
	Runs        *float64 `json:"runs"`   // Finished runs, with everything that belongs to them.
	Events      *float64 `json:"events"` // Events of runs that are kept. Their messages and results are kept too.
	Attachments *float64 `json:"attachments"`
	Audit       *float64 `json:"audit"`
}

// Due is data past its retention time. It is deleted within the hour.
type Due struct {
	Runs        int   `json:"runs"`     // Runs to be deleted.
	Stripped    int   `json:"stripped"` // Runs that lose only their events.
	Events      int   `json:"events"`   // Events of `runs` and of `stripped`.
	Bytes       int64 `json:"bytes"`    // Approximate size of the events.
	Attachments int   `json:"attachments"`
	Audit       int   `json:"audit"`
	Whole       bool  `json:"whole"` // False if there was more than one request examines. The counts are then incomplete.
}

// NewRetention returns retention times and due data.
func NewRetention(r retention.Retention, due *retention.Retired, whole bool) Retention {
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
