package commit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// A read that was cut off fails with the cause and not with what the database said of it.
func TestRetryUnavailable_FailsWithTheCause(t *testing.T) {
	t.Parallel()
	for _, told := range []error{context.Canceled, fmt.Errorf("%w: EOF", data.ErrUnavailable), data.ErrTooSlow} {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := commit.RetryUnavailable(ctx, func() (int, error) {
			cancel(data.ErrFenced)
			return 0, fmt.Errorf("read: %w", told)
		})
		if !errors.Is(err, data.ErrFenced) || errors.Is(err, told) {
			t.Errorf("a read that fails with %v: %v", told, err)
		}
	}
}

// Damage does not pass, and an outage does.
func TestRetryUnavailable_WaitsForWhatPasses(t *testing.T) {
	t.Parallel()
	errs := []error{data.ErrUnavailable, data.ErrDenied, data.ErrDamaged, data.ErrUnavailable}
	at := -1
	_, err := commit.RetryUnavailable(t.Context(), func() (int, error) {
		at++
		return 0, fmt.Errorf("read: %w", errs[at])
	})
	if !errors.Is(err, data.ErrDamaged) || at != 2 {
		t.Errorf("got %v after %d reads", err, at+1)
	}
}
