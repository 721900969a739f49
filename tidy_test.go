package baton

import (
	"testing"
	"time"
)

func TestClockGuard_NoticesChangedClock(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	var p clockGuard
	for _, c := range []struct {
		wall, passed, by time.Duration
		set              bool
		left             time.Duration
	}{
		{5 * time.Minute, 5 * time.Minute, 0, false, 0},
		{5*time.Minute + 30*time.Second, 5 * time.Minute, 30 * time.Second, false, 0}, // the clock is slewed
		{day, day, 0, false, 0}, // the tick was late
		{400 * day, 5 * time.Minute, 400*day - 5*time.Minute, true, time.Hour},
		{5 * time.Minute, 5 * time.Minute, 0, false, 55 * time.Minute},
		{-2 * time.Hour, 5 * time.Minute, -2*time.Hour - 5*time.Minute, true, time.Hour},
		{50 * time.Minute, 50 * time.Minute, 0, false, 10 * time.Minute},
		{50 * time.Minute, 50 * time.Minute, 0, false, 0},
	} {
		if by, set := p.pass(c.wall, c.passed); by != c.by || set != c.set || p.left != c.left {
			t.Errorf("%v in %v: %v, %v, nothing expires for %v", c.wall, c.passed, by, set, p.left)
		}
	}
}
