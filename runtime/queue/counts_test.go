package queue

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// A database that cannot be read at first does not keep decisions from being counted.
func TestCounts_FollowDecisionsBeforeTheFirstCount(t *testing.T) {
	var q counts
	if err := q.recount(func() (map[data.Name]int, error) { return nil, errors.New("away") }); err == nil {
		t.Error("a count that failed is no error")
	}
	q.follow([]decide.Move{{To: data.Queued, Run: data.RunHead{Project: "p", User: "ann"}}})
	all := map[data.Name]int{{}: 3, {Project: "p"}: 2, {Project: "p", User: "ann"}: 1}
	for _, want := range []data.InQueue{{All: 1, OfProject: 1, OfUser: 1}, {All: 3, OfProject: 2, OfUser: 1}} {
		if got := q.of("p", "ann"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if err := q.recount(func() (map[data.Name]int, error) { return all, nil }); err != nil {
			t.Error(err)
		}
	}
}
