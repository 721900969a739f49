package stream

// tide says when a process has to be made to give back what a crowd of streams held. By itself Go would take long: it
// collects when the heap has grown, which it does not once a crowd has left, or else every two minutes; what pools hold
// is free after the second collection, and goes back to the system by what the last two have found.
type tide struct {
	high int // the most streams that were open since the last crowd left
	owed int // collections that are still to come
}

const (
	crowd       = 256 // fewer streams hold too little to matter
	collections = 3
)

// rise is told how many streams are open when one was opened.
func (t *tide) rise(open int) { t.high = max(t.high, open) }

// ebb is told from time to time how many streams are open, and reports whether it is time to collect. While a collection is under way
// it is not: two that are asked for at once are one.
func (t *tide) ebb(open int, collecting bool) bool {
	if t.high >= crowd && open <= t.high/2 {
		t.high, t.owed = open, collections
	}
	if t.owed == 0 || collecting {
		return false
	}
	t.owed--
	return true
}
