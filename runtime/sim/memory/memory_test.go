package memory_test

import (
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/sim/memory"
	"github.com/batonrun/baton/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(*testing.T) data.Store { return memory.New(time.Now).Open() })
}

func TestTake_GivesARowToOne(t *testing.T) {
	now := time.Now()
	db := memory.New(func() time.Time { return now })
	beside := func(instance string) *memory.Store {
		s := db.OpenBeside(memory.Beside{Lease: time.Hour, Pause: func(string) {}})
		if err := s.Members().Join(t.Context(), instance, ""); err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b, commits := beside("a"), beside("b"), int64(0)
	put := func(todo data.Todo) {
		t.Helper()
		commits++
		row := &data.Place{ThreadKey: 1, Todo: todo, RunKey: 1, Project: "p", User: "u", Workflow: "w", Agent: "w"}
		if err := a.Commit(t.Context(), commits, &data.Batch{Rows: []data.Row{row}}); err != nil {
			t.Fatal(err)
		}
	}
	take := func(s *memory.Store, want int) {
		t.Helper()
		got, err := s.Queue().Take(t.Context(), []int64{1, 2}, data.MostHold)
		if err != nil || len(got) != want {
			t.Errorf("%v rows, %v; want %d", got, err, want)
		}
	}
	put(data.ToClaim)
	take(a, 1)
	take(b, 0)
	if _, err := a.Queue().Take(t.Context(), []int64{1}, 0); err != nil { // gives it back
		t.Fatal(err)
	}
	take(b, 1)
	put(data.ToClaim) // replaced
	take(a, 1)
	now = now.Add(2 * time.Minute)
	take(b, 1) // the time of a is over
	put(data.ToCancel)
	take(a, 0)
	put(data.NoTodo)
	take(a, 0)
}
