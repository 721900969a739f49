package rest_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

type page[T any] struct {
	Items      []T
	NextCursor *string
	Total      int
}

type message struct {
	ID, RunID, Role, Content string
	ContextItemIDs           []string
	CreatedAt                time.Time
}

type step struct {
	ID, NodeID, Status string
	Item               *struct {
		Index int
		Key   string
	}
	StepNumber  int
	DurationMs  *int
	StartedAt   string
	CompletedAt *string
}

// pages reads a list from its first page to its last and returns all of it.
func pages[T any](s *server, path string, limit int) []T {
	s.Helper()
	var all []T
	for cursor := ""; ; {
		at := fmt.Sprintf("%s?count=true&limit=%d&cursor=%s", path, limit, url.QueryEscape(cursor))
		p := as[page[T]](s.do("GET", at, nil), 200)
		if len(p.Items) > limit {
			s.Fatalf("a page of %d holds %d", limit, len(p.Items))
		}
		all = append(all, p.Items...)
		if p.Total < len(all) {
			s.Fatalf("%d items of %d", len(all), p.Total)
		}
		if p.NextCursor == nil {
			if len(all) != p.Total {
				s.Fatalf("%d items, but a total of %d", len(all), p.Total)
			}
			return all
		}
		cursor = *p.NextCursor
	}
}

// wide is a workflow of n nodes without needs, each an echo.
func wide(n int) plugins.Workflow {
	w := plugins.Workflow{Name: "wide"}
	for i := range n {
		w.Nodes = append(w.Nodes, plugins.Node{ID: fmt.Sprintf("n%d", i), Agent: "quiet"})
	}
	return w
}

type quiet struct{}

func (quiet) Info() plugins.Info { return plugins.Info{Name: "quiet"} }

func (quiet) Run(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, nil
}

func TestPagesShowEachRunOnce(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ids := make([]string, 120)
	for i := range ids {
		ids[i] = s.start(map[string]any{"agent": "echo", "content": "x"}).RunID
	}
	for _, limit := range []int{7, 60, 120, 500} {
		got := pages[run](s, runs, limit)
		if len(got) != 120 {
			t.Fatalf("pages of %d hold %d runs", limit, len(got))
		}
		for i, r := range got {
			if r.ID != ids[119-i] {
				t.Fatalf("pages of %d: run %d is %s, want %s", limit, i, r.ID, ids[119-i])
			}
		}
	}
	for _, id := range ids {
		s.await(id, "COMPLETED")
	}
	// A run that comes meanwhile does not shift the pages behind a cursor.
	first := as[page[run]](s.do("GET", runs+"?limit=10", nil), 200)
	s.start(map[string]any{"agent": "echo", "content": "late"})
	second := as[page[run]](s.do("GET", runs+"?limit=10&cursor="+*first.NextCursor, nil), 200)
	if second.Items[0].ID != ids[109] {
		t.Errorf("the second page begins with %s, want %s", second.Items[0].ID, ids[109])
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t, wide(3), quiet{})
	id := s.start(map[string]any{"workflowId": "wide"}).RunID
	s.await(id, "COMPLETED")
	steps := as[page[step]](s.do("GET", runs+"/"+id+"/steps?limit=1", nil), 200)
	for _, path := range []string{runs, runs + "/" + id + "/steps", runs + "/" + id + "/messages"} {
		for _, limit := range []string{"0", "501", "-5", "ten", "1e2"} {
			s.do("GET", path+"?limit="+limit, nil).refused(400, "invalid_limit", "limit must be a number from 1 to 500")
		}
		for _, cursor := range []string{"x", "1", *steps.NextCursor + "A"} {
			s.do("GET", path+"?cursor="+cursor, nil).refused(400, "invalid_cursor", "The cursor is not one that this list has given")
		}
	}
	s.do("GET", runs+"/"+id+"/messages?cursor="+*steps.NextCursor, nil).
		refused(400, "invalid_cursor", "The cursor is not one that this list has given")
	s.do("GET", runs+"?status=DONE", nil).
		refused(400, "invalid_request", "status must be QUEUED, RUNNING, WAITING, COMPLETED, FAILED or CANCELLED")
	s.do("GET", runs+"?since=yesterday", nil).
		refused(400, "invalid_request", "since must be a time like 2024-01-15T10:00:00Z")
	s.do("GET", runs+"?threadId=unknown", nil).refused(404, "not_found", "Thread not found")
}

// The steps of a node are a list of their own: those of a map's items say which they are.
func TestSteps_OfAMap(t *testing.T) {
	t.Parallel()
	s := serve(t, plugins.Workflow{Name: "map", Nodes: []plugins.Node{
		{ID: "plan", Agent: "quiet"},
		{ID: "read", Agent: "quiet", Needs: []string{"plan"}, Map: &plugins.Map{Over: `["a", "b", "c"]`, Key: "item"}},
	}}, quiet{})
	id := s.start(map[string]any{"workflowId": "map"}).RunID
	s.await(id, "COMPLETED")
	path := runs + "/" + id + "/steps"
	var keys []string
	for _, st := range as[page[step]](s.do("GET", path+"?nodeId=read", nil), 200).Items {
		keys = append(keys, fmt.Sprint(st.NodeID, st.Item.Index, st.Item.Key))
	}
	slices.Sort(keys)
	if want := []string{"read0a", "read1b", "read2c"}; !slices.Equal(keys, want) {
		t.Errorf("steps %q, want %q", keys, want)
	}
	part := as[page[step]](s.do("GET", path+"?nodeId=read&limit=1", nil), 200)
	if part.Total != 3 {
		t.Errorf("total %d, want 3", part.Total)
	}
	s.do("GET", path+"?cursor="+*part.NextCursor, nil).refused(400, "invalid_cursor", "The cursor is not one that this list has given")
	type node struct {
		NodeID string
		Map    *struct{ Items, Done, Failed int }
	}
	states := as[page[node]](s.do("GET", runs+"/"+id+"/node-states", nil), 200).Items
	if len(states) != 2 || states[0].Map != nil || states[1].Map == nil || *states[1].Map != struct{ Items, Done, Failed int }{3, 3, 0} {
		t.Errorf("states %+v", states)
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	s := serve(t, wide(1), quiet{})
	echo := s.start(map[string]any{"agent": "echo", "content": "x", "threadId": "a/b"})
	failed := s.script(`{"fail": "boom"}`)
	waiting := s.script(`{"ask": {"message": "Deploy?"}}`)
	flow := s.start(map[string]any{"workflowId": "wide"}).RunID
	s.await(echo.RunID, "COMPLETED")
	s.await(failed, "FAILED")
	s.await(waiting, "WAITING")
	s.await(flow, "COMPLETED")
	for query, want := range map[string][]string{
		"status=COMPLETED":                       {flow, echo.RunID},
		"status=FAILED":                          {failed},
		"status=WAITING":                         {waiting},
		"status=QUEUED":                          {},
		"agent=scripted":                         {waiting, failed},
		"agent=wide":                             {},
		"workflowId=wide":                        {flow},
		"workflowId=echo":                        {echo.RunID},
		"agent=scripted&status=FAILED":           {failed},
		"threadId=a%2Fb":                         {echo.RunID},
		"threadId=" + echo.ConversationID:        {echo.RunID},
		"since=2000-01-01T00:00:00Z":             {flow, waiting, failed, echo.RunID},
		"since=2999-01-01T00:00:00%2B01:00":      {},
		"agent=nobody":                           {},
		"status=WAITING&limit=1&agent=scripted&": {waiting},
	} {
		got := as[page[run]](s.do("GET", runs+"?count=true&"+query, nil), 200)
		ids := []string{}
		for _, r := range got.Items {
			ids = append(ids, r.ID)
			if asks := len(r.Interrupts); (r.Status == "WAITING") != (asks == 1) {
				t.Errorf("%s: a run that is %s asks %d things", query, r.Status, asks)
			}
		}
		if fmt.Sprint(ids) != fmt.Sprint(want) || got.Total != len(want) || got.Items == nil {
			t.Errorf("%s: got %v of %d, want %v", query, ids, got.Total, want)
		}
	}
}

// both is a workflow of two nodes that ask.
func both() plugins.Workflow {
	return plugins.Workflow{Name: "both", Nodes: []plugins.Node{{ID: "left", Agent: "asker"}, {ID: "right", Agent: "asker"}}}
}

type asker struct{}

func (asker) Info() plugins.Info { return plugins.Info{Name: "asker"} }

func (asker) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	_, err := run.Ask(ctx, agui.Interrupt{Reason: "confirmation", Message: "Go " + run.Input.Node + "?"})
	return agui.WorkerOutput{Answer: run.Input.Node}, err
}

func TestLists_AreCountedOnRequest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.echo("one")
	s.echo("two")
	for _, path := range []string{runs, runs + "?status=COMPLETED&agent=echo", threads, "/api/projects/" + project + "/interrupts"} {
		with := "?"
		if strings.Contains(path, "?") {
			with = "&"
		}
		for query, want := range map[string]bool{"limit=1": false, "count=false": false, "count=true": true, "limit=1&count=true": true} {
			got := as[struct{ Total *int }](s.do("GET", path+with+query, nil), 200)
			if (got.Total != nil) != want {
				t.Errorf("%s%s%s is counted: %v", path, with, query, got.Total != nil)
			}
		}
		as[map[string]any](s.do("GET", path+with+"count=yes", nil), 400)
	}
}
