package attachments

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime"
)

// TestPlacesAreWaitedForAWhile has more files on their way than there are places.
func TestPlacesAreWaitedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(2, 2)
		ann, bob := owner{"p", "ann"}, owner{"p", "bob"}
		var releases []func()
		for range 2 {
			release, err := p.take(t.Context(), ann)
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
		}
		refusal, ok := errors.AsType[*runtime.Error](second(p.take(t.Context(), ann)))
		if !ok || refusal.Code != "too_many_transfers" {
			t.Errorf("a third of a user: %v", refusal)
		}
		begun := time.Now()
		if err := second(p.take(t.Context(), bob)); !errors.Is(err, errBusy) || time.Since(begun) != patience {
			t.Errorf("another's, after %v: %v", time.Since(begun), err)
		}
		time.AfterFunc(time.Second, releases[0])
		release, err := p.take(t.Context(), bob)
		if err != nil {
			t.Errorf("another's, when a place is free: %v", err)
		}
		release()
		release()
		releases[0]()
		releases[1]()
		if len(p.taken) != 0 || !p.all.TryAcquire(2) {
			t.Errorf("places are still taken: %v", p.taken)
		}
	})
}

func second[T any](_ T, err error) error { return err }
