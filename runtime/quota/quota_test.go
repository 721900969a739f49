package quota_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/batonrun/baton/runtime/quota"
)

var (
	ann = quota.Owner{Project: "p1", User: "ann"}
	ben = quota.Owner{Project: "p1", User: "ben"}
	cem = quota.Owner{Project: "p2", User: "cem"}
)

func TestPool_Try(t *testing.T) {
	t.Parallel()
	type step struct {
		who  quota.Owner
		n    int64
		want quota.Scope
	}
	for name, c := range map[string]struct {
		limits quota.Limits
		steps  []step
	}{
		"no limits":                         {quota.Limits{}, []step{{ann, 1 << 40, quota.None}, {ann, 1 << 40, quota.None}}},
		"all together":                      {quota.Limits{Total: 10}, []step{{ann, 6, quota.None}, {cem, 4, quota.None}, {ben, 1, quota.Total}}},
		"a project":                         {quota.Limits{Total: 20, PerProject: 10}, []step{{ann, 6, quota.None}, {ben, 5, quota.Project}, {cem, 5, quota.None}}},
		"a user":                            {quota.Limits{PerUser: 5}, []step{{ann, 3, quota.None}, {ann, 3, quota.User}, {ben, 3, quota.None}, {ann, 2, quota.None}}},
		"the user's limit is named first":   {quota.Limits{Total: 5, PerProject: 5, PerUser: 5}, []step{{ann, 5, quota.None}, {ann, 1, quota.User}, {ben, 1, quota.Project}, {cem, 1, quota.Total}}},
		"nobody has no share":               {quota.Limits{Total: 10, PerProject: 1, PerUser: 1}, []step{{quota.Owner{}, 6, quota.None}, {quota.Owner{}, 4, quota.None}, {ann, 1, quota.Total}}},
		"the last eighth is for small ones": {quota.Limits{Total: 80, Small: 4}, []step{{ann, 60, quota.None}, {ann, 11, quota.Total}, {ann, 10, quota.None}, {ben, 5, quota.Total}, {ben, 4, quota.None}}},
		"one alone may be larger":           {quota.Limits{Total: 5, PerProject: 4, PerUser: 3}, []step{{ann, 9, quota.None}, {cem, 1, quota.Total}}},
		"one alone of a user may be larger": {quota.Limits{Total: 20, PerUser: 3}, []step{{cem, 3, quota.None}, {ann, 9, quota.None}, {ann, 1, quota.User}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := quota.New(c.limits)
			for i, s := range c.steps {
				if _, got := p.Try(s.who, s.n); got != s.want {
					t.Errorf("step %d: got %d, want %d", i, got, s.want)
				}
			}
		})
	}
}

func TestReservation_GrowsAndShrinks(t *testing.T) {
	t.Parallel()
	p := quota.New(quota.Limits{Total: 10, PerUser: 8})
	r, _ := p.Try(ann, 5)
	other, _ := p.Try(ann, 1)
	if got := r.Grow(3); got != quota.User || r.Held() != 5 {
		t.Errorf("beyond the limit: %d, %d held", got, r.Held())
	}
	if got := r.Grow(2); got != quota.None {
		t.Errorf("to the limit: %d", got)
	}
	if got := r.Grow(1); got != quota.User || r.Held() != 7 {
		t.Errorf("beyond it: %d, %d held", got, r.Held())
	}
	other.Release()
	if got := r.Grow(23); got != quota.None {
		t.Errorf("alone: %d", got)
	}
	if r.Force(-10); r.Held() != 20 {
		t.Errorf("smaller, above the limit: %d held", r.Held())
	}
	r.Force(5)
	r.Release()
	r.Release()
	if got := p.Used(ann); got != (quota.Used{}) {
		t.Errorf("left behind: %+v", got)
	}
	var none *quota.Pool
	free := none.Reserve(ann)
	free.Force(1)
	if free.Grow(5) != quota.None || free.Held() != 0 {
		t.Error("no pool has a limit")
	}
	free.Release()
	if taken, err := none.Take(t.Context(), ann, 7); err != nil || taken.Held() != 0 {
		t.Errorf("no pool: %v", err)
	}
}

// queued is a reservation requested in its own goroutine.
type queued struct {
	r    *quota.Reservation
	err  error
	done bool
}

func take(ctx context.Context, p *quota.Pool, o quota.Owner, n int64) *queued {
	q := new(queued)
	go func() { q.r, q.err = p.Take(ctx, o, n); q.done = true }()
	synctest.Wait()
	return q
}

func granted(qs ...*queued) (is []bool) {
	synctest.Wait()
	for _, q := range qs {
		is = append(is, q.done)
	}
	return is
}

func TestPool_ServesUsersInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quota.New(quota.Limits{Total: 1})
		r, _ := p.Try(cem, 1)
		a1, a2, b1 := take(t.Context(), p, ann, 1), take(t.Context(), p, ann, 1), take(t.Context(), p, ben, 1)
		want := [][]bool{{true, false, false}, {true, false, true}, {true, true, true}}
		for i, next := range []*queued{{r: r}, a1, b1} {
			next.r.Release()
			if got := granted(a1, a2, b1); !slices.Equal(got, want[i]) {
				t.Errorf("after %d releases: %v, want %v", i+1, got, want[i])
			}
		}
		a2.r.Release()
	})
}

func TestPool_LargeWaiterIsNotOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quota.New(quota.Limits{Total: 10})
		r, _ := p.Try(cem, 6)
		large, small := take(t.Context(), p, ann, 8), take(t.Context(), p, ben, 1)
		if got := granted(large, small); got[0] || got[1] {
			t.Errorf("granted beside another: %v", got)
		}
		r.Release()
		if got := granted(large, small); !got[0] || !got[1] {
			t.Errorf("not granted: %v", got)
		}
	})
}

func TestPool_FullShareHoldsUpItsOwnersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quota.New(quota.Limits{Total: 20, PerProject: 10, PerUser: 6})
		r, _ := p.Try(ann, 6)
		again, neighbour, mate, other := take(t.Context(), p, ann, 3), take(t.Context(), p, ben, 5), take(t.Context(), p, quota.Owner{Project: "p1", User: "dan"}, 1), take(t.Context(), p, cem, 6)
		if got := granted(again, neighbour, mate, other); !slices.Equal(got, []bool{false, false, false, true}) {
			t.Errorf("granted %v, want those of the other project", got)
		}
		r.Release()
		if got := granted(again, neighbour, mate); !slices.Equal(got, []bool{true, true, true}) {
			t.Errorf("after the release %v", got)
		}
	})
}

func TestPool_WaiterGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quota.New(quota.Limits{Total: 10})
		r, _ := p.Try(cem, 6)
		ctx, cancel := context.WithCancelCause(t.Context())
		large, small := take(ctx, p, ann, 8), take(t.Context(), p, ben, 1)
		gone := errors.New("the client left")
		cancel(gone)
		if got := granted(large, small); !got[0] || !got[1] || !errors.Is(large.err, gone) || small.err != nil {
			t.Errorf("%v: %v, %v", got, large.err, small.err)
		}
		r.Release()
	})
}

// Users reserve, wait, grow and release at random. Each step compares the pool with fresh sums.
func TestPool_NeverExceedsItsLimits(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	owners := []quota.Owner{ann, ben, cem}
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			limits := quota.Limits{Total: 5 + rnd.Int64N(20), PerProject: rnd.Int64N(12), PerUser: rnd.Int64N(8)}
			p := quota.New(limits)
			var held []*quota.Reservation
			var waits []*queued
			ctx, cancel := context.WithCancel(t.Context())
			for range 60 {
				o := owners[rnd.IntN(len(owners))]
				switch rnd.IntN(4) {
				case 0:
					if r, full := p.Try(o, 1+rnd.Int64N(4)); full == quota.None {
						held = append(held, r)
					}
				case 1:
					waits = append(waits, take(ctx, p, o, 1+rnd.Int64N(9)))
				default:
					if len(held) > 0 {
						i := rnd.IntN(len(held))
						held[i].Release()
						held = slices.Delete(held, i, i+1)
					}
				}
				synctest.Wait()
				waits = slices.DeleteFunc(waits, func(q *queued) bool {
					if q.done {
						held = append(held, q.r)
					}
					return q.done
				})
				check(t, p, limits, held, owners)
			}
			for _, r := range held {
				r.Release()
				synctest.Wait()
			}
			for len(waits) > 0 { // all are served in the end
				i := slices.IndexFunc(waits, func(q *queued) bool { return q.done })
				if i < 0 {
					t.Fatal("nothing is held, and somebody waits")
				}
				waits[i].r.Release()
				waits = slices.Delete(waits, i, i+1)
				synctest.Wait()
			}
			cancel()
			check(t, p, limits, nil, owners)
		})
	}
}

// check compares a pool with the held reservations. Only a single reservation may exceed its share.
func check(t *testing.T, p *quota.Pool, limits quota.Limits, held []*quota.Reservation, owners []quota.Owner) {
	t.Helper()
	var sum int64
	for _, r := range held {
		sum += r.Held()
	}
	for _, o := range owners {
		got := p.Used(o)
		if got.Total != sum {
			t.Fatalf("%d are held, %d said", sum, got.Total)
		}
		for used, limit := range map[int64]int64{got.User: limits.PerUser, got.Project: limits.PerProject, got.Total: limits.Total} {
			if limit > 0 && used > limit && used > 9 {
				t.Fatalf("%d of %d are held", used, limit)
			}
		}
	}
}
