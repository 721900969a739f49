package blob

import "time"

// SetClock has d go by another clock.
func (d *Directory) SetClock(now func() time.Time) { d.now = now }
