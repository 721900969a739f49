package work

import (
	"testing"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/offer"
	"github.com/batonrun/baton/runtime/queue"
)

func TestRuns_ForgetOnce(t *testing.T) {
	t.Parallel()
	offers, err := offer.New(new(host.Registry), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &exec.Config{Offers: offers, Commits: commit.New(commit.Config{}), FrameBytes: 1 << 20, Abandoned: t.Context()}
	run := &data.Run{RunHead: data.RunHead{Key: 1}}
	l, other := exec.New(cfg, run), exec.New(cfg, run)
	if _, err := l.Claim(t.Context(), new(data.Thread), run, nil, new(queue.Reservation)); err != nil {
		t.Fatal(err)
	}
	rs := &runs{live: map[int64]*exec.Live{1: l}}
	rs.forget(other)
	if rs.of(1) != l || rs.count() != 1 {
		t.Fatal("a run is forgotten for another with its key")
	}
	for range 2 {
		rs.forget(l)
	}
	if err := l.AwaitEnd(); err != nil || rs.count() != 0 {
		t.Errorf("%d runs are left, %v", rs.count(), err)
	}
}
