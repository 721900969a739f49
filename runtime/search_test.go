package runtime_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/data"
)

// searched is a store with searches that wait.
type searched struct {
	runtime.Store
	begun chan struct{}
	on    chan struct{}
}

func (s *searched) ByProject() data.ByProject { return search{s.Store.ByProject(), s} }

// search is the part ByProject of a searched store.
type search struct {
	data.ByProject
	store *searched
}

func (s search) Runs(ctx context.Context, f data.RunFilter) (data.Page[data.Run], error) {
	if f.Searches() {
		s.store.begun <- struct{}{}
		<-s.store.on
	}
	return s.ByProject.Runs(ctx, f)
}

// Each user has a limit of simultaneous searches, and one user's searches never cause another user's refusal.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Accounts: true})
	slow := &searched{b.store, make(chan struct{}), make(chan struct{})}
	cfg := b.cfg
	cfg.Store = slow
	rt, err := runtime.New(cfg)
	must(t, err)
	var all sync.WaitGroup
	boss := runtime.MustCaller("p", "boss", runtime.RoleAdmin)
	for range 8 {
		all.Go(func() { _, _ = rt.Runs.List(context.Background(), boss, runtime.RunFilter{Text: "x"}) })
		<-slow.begun
	}
	var refusal *runtime.Error
	if _, err := rt.Runs.List(t.Context(), boss, runtime.RunFilter{Text: "x"}); !errors.As(err, &refusal) || refusal.Code != "too_many_searches" || refusal.Kind != runtime.KindOverloaded {
		t.Errorf("one more: %v", err)
	}
	instead, err := boss.InSteadOf("ann", runtime.RoleViewer)
	must(t, err)
	yes := true
	if _, err := rt.Threads.List(t.Context(), instead, runtime.ThreadFilter{Archived: &yes}); !errors.As(err, &refusal) || refusal.Code != "too_many_searches" {
		t.Errorf("in another's stead: %v", err)
	}
	for what, search := range map[string]func() error{
		"users by a text": func() error {
			_, err := rt.Threads.Users(t.Context(), boss, runtime.UserFilter{Text: "x"})
			return err
		},
		"the audit by two names": func() error {
			_, err := rt.AuditOf(t.Context(), boss, runtime.AuditFilter{Actor: "ann", Action: "start"})
			return err
		},
	} {
		if err := search(); !errors.As(err, &refusal) || refusal.Code != "too_many_searches" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := rt.AuditOf(t.Context(), boss, runtime.AuditFilter{Actor: "ann"}); err != nil {
		t.Errorf("the audit by one name: %v", err)
	}
	if _, err := rt.Runs.List(t.Context(), boss, runtime.RunFilter{}); err != nil {
		t.Errorf("a list that is no search: %v", err)
	}
	if _, err := rt.Threads.List(t.Context(), runtime.MustCaller("p", "ann", runtime.RoleUser), runtime.ThreadFilter{Text: "x"}); err != nil {
		t.Errorf("somebody else's: %v", err)
	}
	close(slow.on)
	all.Wait()
	if _, err := rt.Threads.List(t.Context(), boss, runtime.ThreadFilter{Text: "x"}); err != nil {
		t.Errorf("once they are over: %v", err)
	}
}
