package attachments

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
)

func TestReserve_WaitsForOthersAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quota.New(quota.Limits{Total: 2, PerUser: 2})
		ann, ben := quota.OwnerOf("p", "ann"), quota.OwnerOf("p", "ben")
		one, err := reserve(t.Context(), p, ann)
		if err != nil {
			t.Fatal(err)
		}
		other, err := reserve(t.Context(), p, ann)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reserve(t.Context(), p, ann); code(err) != "too_many_transfers" {
			t.Errorf("a third of one user: %v", err)
		}
		if _, err := reserve(t.Context(), p, ben); code(err) != "overloaded" {
			t.Errorf("of another who waits in vain: %v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := reserve(gone, p, ben); code(err) != "overloaded" {
			t.Errorf("of one who has left: %v", err)
		}
		done := make(chan error, 1)
		go func() {
			release, err := reserve(t.Context(), p, ben)
			if err == nil {
				release()
			}
			done <- err
		}()
		synctest.Wait()
		one()
		if err := <-done; err != nil {
			t.Errorf("of one who waits until another ends: %v", err)
		}
		other()
	})
}

func code(err error) string {
	e, _ := errors.AsType[*runtime.Error](err)
	if e == nil {
		return ""
	}
	return e.Code
}
