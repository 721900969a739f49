package storagetest

import (
	"errors"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

func testRenew(t *testing.T, f *fixture) {
	for range 2 {
		if err := f.Members().Renew(t.Context(), f.n); err != nil {
			t.Errorf("Renew behind commit %d: %v", f.n, err)
		}
		f.commit(t, nil)
	}
	for _, n := range []int64{f.n - 1, f.n + 1} {
		if err := f.Members().Renew(t.Context(), n); !errors.Is(err, data.ErrFenced) {
			t.Errorf("Renew behind commit %d, the last is %d: %v, want ErrFenced", n, f.n, err)
		}
	}
	f.commit(t, nil)
	if err := f.Members().Fence(t.Context(), "instance-1"); err != nil {
		t.Fatal(err)
	}
	if err := f.Members().Renew(t.Context(), f.n); !errors.Is(err, data.ErrFenced) {
		t.Errorf("Renew after the fence: %v, want ErrFenced", err)
	}
}

func testLeave(t *testing.T, f *fixture) {
	f.commit(t, nil)
	if err := f.Members().Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.try(t.Context(), &data.Batch{}); !errors.Is(err, data.ErrFenced) {
		t.Errorf("Commit after Leave: %v, want ErrFenced", err)
	}
	if err := f.Members().Renew(t.Context(), f.n); !errors.Is(err, data.ErrFenced) {
		t.Errorf("Renew after Leave: %v, want ErrFenced", err)
	}
	if err := f.Members().Join(t.Context(), "instance-2", ""); err != nil {
		t.Fatalf("Join after Leave: %v", err)
	}
	f.n = 0
	f.commit(t, nil)
}

func testInstance(t *testing.T, f *fixture) {
	is := func(id, addr string, end data.End) {
		t.Helper()
		in, err := f.Members().Instance(t.Context(), id)
		if in.SeenAt.IsZero() {
			t.Errorf("nobody has seen the instance %s", id)
		}
		equal(t, "Instance", in, err, data.Instance{ID: id, Addr: addr, End: end, SeenAt: in.SeenAt})
	}
	is("instance-1", "127.0.0.1:1", "")
	if err := errors.Join(f.Members().Fence(t.Context(), "instance-1"), f.Members().Leave(t.Context())); err != nil {
		t.Fatal(err)
	}
	is("instance-1", "127.0.0.1:1", data.EndFenced)
	if err := errors.Join(f.Members().Join(t.Context(), "instance-2", "b"), f.Members().Leave(t.Context())); err != nil {
		t.Fatal(err)
	}
	is("instance-2", "b", data.EndLeft)
	if _, err := f.Members().Instance(t.Context(), "nobody"); !errors.Is(err, data.ErrNotFound) {
		t.Errorf("Instance of nobody: %v, want ErrNotFound", err)
	}
}

func testNow(t *testing.T, f *fixture) {
	before, err := f.Members().Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decided := f.views(t, data.Ask{})[0].Now
	after, err := f.Members().Now(t.Context())
	if err != nil || decided.Before(before.Truncate(time.Millisecond)) || after.Before(decided) {
		t.Errorf("a decision is made at %v, between %v and %v (%v)", decided, before, after, err)
	}
}

func testSecret(t *testing.T, f *fixture) {
	if got, err := f.Saved().Secret(t.Context(), "x"); !errors.Is(err, data.ErrNotFound) {
		t.Fatalf("got %q, %v", got, err)
	}
	for _, value := range []string{"one", "two"} {
		if err := f.Saved().PutSecret(t.Context(), "x", value); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Saved().Secret(t.Context(), "x"); err != nil || got != "one" {
			t.Errorf("after %s: %q, %v", value, got, err)
		}
	}
	if got, err := f.Saved().Secret(t.Context(), "y"); !errors.Is(err, data.ErrNotFound) {
		t.Errorf("of another purpose: %q, %v", got, err)
	}
	if err := errors.Join(f.Saved().PutSecret(t.Context(), "y", "other"), f.Saved().RemoveSecrets(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, purpose := range []string{"x", "y"} {
		if got, err := f.Saved().Secret(t.Context(), purpose); !errors.Is(err, data.ErrNotFound) {
			t.Errorf("of %s after all were removed: %q, %v", purpose, got, err)
		}
	}
}
