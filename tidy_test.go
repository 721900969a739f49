package baton

import (
	"testing"
	"time"
)

func TestAClockThatWasSetIsNoticed(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		wall, passed, by time.Duration
		ok               bool
	}{
		{5 * time.Minute, 5 * time.Minute, 0, false},
		{5*time.Minute + 30*time.Second, 5 * time.Minute, 30 * time.Second, false}, // it is slewed
		{day, day, 0, false}, // it was slow to come
		{400 * day, 5 * time.Minute, 400*day - 5*time.Minute, true},
		{-2 * time.Hour, 5 * time.Minute, -2*time.Hour - 5*time.Minute, true},
	} {
		if by, ok := stepped(c.wall, c.passed); by != c.by && ok || ok != c.ok {
			t.Errorf("%v in %v: %v, %v", c.wall, c.passed, by, ok)
		}
	}
}
