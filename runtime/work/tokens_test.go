package work

import (
	"testing"
	"time"
)

// Tokens that were counted while the clock was ahead block no project until that time comes, and count again if the clock is
// wrong now.
func TestTokensOfAClockThatWasSetBack(t *testing.T) {
	used := newTokens(100)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wrong := now.AddDate(1, 0, 0)
	used.addTokens("p", 200, wrong)
	if used.of("p", wrong) != 200 || used.wait("p", wrong) <= 0 {
		t.Errorf("%d tokens are counted, and one waits %v", used.of("p", wrong), used.wait("p", wrong))
	}
	if used.of("p", now) != 0 || used.wait("p", now) != 0 {
		t.Errorf("behind it %d tokens are counted, and one waits %v", used.of("p", now), used.wait("p", now))
	}
	used.addTokens("p", 150, now)
	if n, wait := used.of("p", now), used.wait("p", now); n != 150 || wait <= 0 || wait > 25*time.Hour {
		t.Errorf("then %d tokens are counted, and one waits %v", n, wait)
	}
	back := now.Add(-time.Hour) // not by much
	if n, wait := used.of("p", back), used.wait("p", back); n != 150 || wait <= 24*time.Hour || wait > 26*time.Hour {
		t.Errorf("an hour back %d tokens are counted, and one waits %v", n, wait)
	}
	if used.of("p", wrong) != 200 {
		t.Errorf("%d tokens are left of those that were ahead", used.of("p", wrong))
	}
}
