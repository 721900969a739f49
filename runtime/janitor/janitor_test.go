package janitor_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/janitor"
)

// play gives turns at a time until nothing is due.
func play(t *testing.T, j *janitor.Janitor, at time.Time) (idle time.Duration) {
	t.Helper()
	for range 1000 {
		if idle = j.Turn(t.Context(), at); idle > 0 {
			return idle
		}
	}
	t.Fatal("there is no end of turns")
	return 0
}

func TestJanitor_DutiesTakeTurns(t *testing.T) {
	var did []string
	duty := func(name string, every time.Duration, parts int) janitor.Duty {
		return janitor.Duty{Name: name, Every: every, Do: func(ctx context.Context, _ time.Time) error {
			for range parts {
				did = append(did, name)
				if err := janitor.Yield(ctx); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	begin := time.Now()
	j := janitor.New(janitor.Config{
		Begin: begin, Retry: time.Minute, Behind: time.Minute, Log: slog.New(slog.DiscardHandler),
		Duties: []janitor.Duty{duty("long", time.Hour, 4), duty("short", time.Minute, 1), duty("two", time.Minute, 2)},
	})
	if idle := j.Turn(t.Context(), begin); idle != time.Minute || did != nil {
		t.Errorf("first there is nothing to do for %v, and %v was done", idle, did)
	}
	if idle := play(t, j, begin.Add(time.Minute)); idle != time.Minute {
		t.Errorf("then there is nothing to do for %v", idle)
	}
	if diff := cmp.Diff([]string{"long", "short", "two", "long", "two", "long", "long"}, did); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	did = nil
	play(t, j, begin.Add(2*time.Minute))
	if diff := cmp.Diff([]string{"short", "two", "two"}, did); diff != "" {
		t.Errorf("turns of the next period (-want +got):\n%s", diff)
	}
}

func TestJanitor_LogsFailuresAndDutiesThatFallBehind(t *testing.T) {
	var log strings.Builder
	begin, tries := time.Now(), 0
	slow := janitor.Duty{Name: "slow", Every: time.Minute, Do: func(ctx context.Context, _ time.Time) error {
		for {
			if err := janitor.Yield(ctx); err != nil {
				return err
			}
		}
	}}
	j := janitor.New(janitor.Config{
		Begin: begin, Retry: time.Minute, Behind: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Duties: []janitor.Duty{
			slow,
			{Name: "failing", Every: time.Hour, Do: func(context.Context, time.Time) error { return errors.New("no disk") }},
			{Name: "later", Every: time.Hour, Do: func(context.Context, time.Time) error { tries++; return janitor.ErrNotNow }},
		},
	})
	for minute := range 4 {
		for range 6 {
			j.Turn(t.Context(), begin.Add(time.Duration(minute)*time.Minute))
		}
	}
	j.Stop()
	if tries != 3 {
		t.Errorf("what cannot be done now was tried %d times in 3 periods", tries)
	}
	for _, line := range []string{
		`msg="a background duty falls behind" duty=slow since=2m0s`, `msg="a background duty failed" duty=failing error="no disk"`,
	} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log does not say %s once:\n%s", line, &log)
		}
	}
}

func TestYield_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := janitor.Yield(ctx); err != nil {
		t.Error(err)
	}
	why := errors.New("enough")
	if cancel(why); !errors.Is(janitor.Yield(ctx), why) {
		t.Errorf("got %v", janitor.Yield(ctx))
	}
	begin := time.Now()
	var ended error
	j := janitor.New(janitor.Config{Begin: begin, Log: slog.New(slog.DiscardHandler), Duties: []janitor.Duty{
		{Every: time.Hour, Do: func(ctx context.Context, _ time.Time) error { ended = janitor.Yield(ctx); return ended }},
	}})
	j.Turn(t.Context(), begin)
	if ended != nil {
		t.Errorf("the duty has ended: %v", ended)
	}
	if j.Stop(); !errors.Is(ended, context.Canceled) {
		t.Errorf("a duty that is stopped gets %v", ended)
	}
}
