package monitor

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
)

// FuzzMonitorID checks that a monitor resumes without a loss behind an id in the ring, and starts at the end for any
// other id.
func FuzzMonitorID(f *testing.F) {
	s := newStage(f, "p", nil)
	first := s.watch()
	f.Cleanup(first.Close)
	for range 2 * window {
		s.write(delta("x"))
	}
	const gone, kept, end = window, 2*window - 5, 2 * window
	epoch, _, _ := strings.Cut(first.ID(), "-")
	for _, seed := range []string{
		"", "-0", "-" + strconv.Itoa(gone-1), "-" + strconv.Itoa(kept), "-" + strconv.Itoa(end), "-" + strconv.Itoa(end+1), "--1", "-+7",
		"-9223372036854775807", "-9223372036854775808", "-1e3", "0123456789ab-7", "57", "\x00",
	} {
		f.Add(seed)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, id string) {
		if strings.HasPrefix(id, "-") {
			id = epoch + id
		}
		m := s.feeds.Open("p", "u", false, Query{After: id})
		defer m.Close()
		offset, err := strconv.ParseInt(strings.TrimPrefix(m.ID(), epoch+"-"), 10, 64)
		if err != nil || offset < gone || offset > end || !m.Resumed() && offset != end {
			t.Fatalf("behind %q: stands at %q, resumed %v", id, m.ID(), m.Resumed())
		}
		if strings.HasPrefix(id, epoch+"-") && id == m.ID() && !m.Resumed() {
			t.Errorf("does not go on behind %q", id)
		}
		n := 0
		for {
			notices, err := m.Next(ended)
			if errors.Is(err, ErrLagged) {
				t.Fatalf("behind %q: %v", id, err)
			}
			if err != nil {
				break
			}
			n += len(notices)
		}
		if want := end - int(offset); n != want {
			t.Errorf("behind %q: got %d notices, want %d", id, n, want)
		}
	})
}
