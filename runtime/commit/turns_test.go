package commit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// batches records the commands of each commit with their owners. The first commit waits until the gate is closed.
type batches struct {
	store
	gate  chan struct{}
	shown [][]*commit.Item
}

func recordBatches(t *testing.T) (*batches, *commit.Queue) {
	t.Helper()
	b := &batches{gate: make(chan struct{})}
	b.commit = func(int64, *data.Batch) error { <-b.gate; return nil }
	q := open(t, &b.store, commit.Config{Show: func(batch []*commit.Item) {
		b.shown = append(b.shown, slices.DeleteFunc(slices.Clone(batch), func(it *commit.Item) bool { return it.Bytes == 0 }))
	}})
	q.Add(&commit.Item{}) // is being committed while the others gather
	synctest.Wait()
	return b, q
}

func write(owner quota.Owner, bytes int) *commit.Item {
	return &commit.Item{Owner: owner, Bytes: bytes, Command: &decide.Look{}}
}

// flush commits all and returns the batches with the items that have a size.
func (b *batches) flush(t *testing.T, q *commit.Queue) [][]*commit.Item {
	t.Helper()
	close(b.gate)
	if err := q.Flush(); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(b.shown, func(batch []*commit.Item) bool { return len(batch) == 0 })
}

// A commit takes 1000 bytes here, and one item more.
func TestQueue_LargeItemsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, q := recordBatches(t)
		for i := range 40 {
			q.Add(write(quota.OwnerOf("p", fmt.Sprint("heavy", i%4)), 1<<20))
		}
		light := write(quota.OwnerOf("p", "light"), 10)
		q.Add(light)
		all := b.flush(t, q)
		if !slices.Contains(all[0], light) {
			t.Error("a small item waits for the large ones of other users")
		}
		if len(all) != 40 {
			t.Errorf("40 items of 1 MiB and a small one took %d commits", len(all))
		}
		for i := 0; i < 40; i += 4 { // they take turns
			seen := make(map[quota.Owner]bool)
			for _, batch := range all[i : i+4] {
				for _, it := range batch {
					seen[it.Owner] = true
				}
			}
			if n := len(seen); n < 4 {
				t.Errorf("four commits took items of %d users", n)
			}
		}
	})
}

func TestQueue_UsersOfAProjectShareItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, q := recordBatches(t)
		for i := range 160 {
			q.Add(write(quota.OwnerOf("many", fmt.Sprint(i%16)), 4<<10))
			q.Add(write(quota.OwnerOf("one", "user"), 4<<10))
		}
		many, one := 0, 0
		for _, batch := range b.flush(t, q)[:160] {
			for _, it := range batch {
				if it.Owner.Project == "many" {
					many++
				} else {
					one++
				}
			}
		}
		if many < 60 || one < 60 {
			t.Errorf("half of the commits took %d items of a project with many users and %d of one with one", many, one)
		}
	})
}

func TestQueue_KeepsTheOrderOfAnOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, q := recordBatches(t)
		rnd := rand.New(rand.NewPCG(1, 2))
		want := make(map[quota.Owner][]*commit.Item)
		for range 2000 {
			it := write(quota.OwnerOf(fmt.Sprint(rnd.IntN(3)), fmt.Sprint(rnd.IntN(4))), 1+rnd.IntN(2000))
			if rnd.IntN(20) == 0 {
				it.Bytes *= 200
			}
			if rnd.IntN(50) == 0 {
				it.Command = &decide.Delete{}
			}
			want[it.Owner] = append(want[it.Owner], it)
			q.Add(it)
		}
		got := make(map[quota.Owner][]*commit.Item)
		for _, batch := range b.flush(t, q) {
			for _, it := range batch {
				got[it.Owner] = append(got[it.Owner], it)
				_, deletes := it.Command.(*decide.Delete)
				if _, first := batch[0].Command.(*decide.Delete); deletes != first {
					t.Fatal("a deletion shares its commit with another command")
				}
			}
		}
		for owner, items := range want {
			if !slices.Equal(got[owner], items) {
				t.Errorf("items of %v were written in another order, or %d of %d", owner, len(got[owner]), len(items))
			}
		}
	})
}

// A deletion takes a commit of its own, which others do not put off for ever.
func TestQueue_DeletionComesNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, q := recordBatches(t)
		for range 100 {
			q.Add(write(quota.OwnerOf("p", "u"), 1000))
		}
		deletion := &commit.Item{Bytes: 1, Command: &decide.Delete{}}
		q.Add(deletion)
		if all := b.flush(t, q); !slices.Contains(all[0], deletion) && !slices.Contains(all[1], deletion) {
			t.Error("a deletion waits for all others")
		}
	})
}

// When the database has refused a batch, each part is shown as it is stored, whatever happens to the others.
func TestQueue_ShowsThePartsOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		db := &store{}
		var shown, seen []int64
		db.commit = func(n int64, b *data.Batch) error {
			<-gate
			switch ids := events(b); {
			case len(ids) == 3:
				return errors.New("a value that no column takes")
			case len(ids) == 1 && ids[0] == 3:
				seen = slices.Clone(shown)
				return data.ErrFenced
			}
			return nil
		}
		q := open(t, db, commit.Config{Show: func(batch []*commit.Item) {
			for _, it := range batch {
				for i := range it.Events {
					shown = append(shown, it.Events[i].ID)
				}
			}
		}})
		q.Add(&commit.Item{})
		synctest.Wait()
		var told [4]error
		for id := range int64(3) {
			it := event(q.Source(quota.Owner{}, func(error) {}), id+1)
			it.Done = []func(error){func(err error) { told[id+1] = err }}
			q.Add(it)
		}
		close(gate)
		synctest.Wait()
		if !slices.Equal(seen, []int64{1, 2}) {
			t.Errorf("when the third is written, %v are shown", seen)
		}
		if told[1] != nil || told[2] != nil || !errors.Is(told[3], data.ErrFenced) {
			t.Errorf("their writers are told %v", told[1:])
		}
	})
}

func events(b *data.Batch) (ids []int64) {
	for i := range b.Events {
		ids = append(ids, b.Events[i].ID)
	}
	return ids
}
