package work

import (
	"testing"

	"github.com/batonrun/baton/runtime/model"
)

// Two runs of a user that wait for room in their user's share and in their project's do not wait for each other: once others have
// taken all of both shares once over, one of them goes on.
func TestRunsThatWaitForRoomDoNotWaitForEachOther(t *testing.T) {
	s := newSayings(&Config{SaidPerUser: 100, SaidPerProject: 150, Said: 1000, Light: 1})
	run := func(user string, key int64) *model.RunHead {
		return &model.RunHead{Key: key, ThreadKey: key, Project: "p", User: user}
	}
	hers, his := run("ann", 1), run("zoe", 2)
	if !s.take(his, 100) || !s.take(hers, 20) {
		t.Fatal("there is room")
	}
	a, b := run("ann", 3), run("ann", 4)
	if s.keep(b, 60) { // 20 + 60 of 100, but 120 + 60 of 150
		t.Fatal("b has room")
	}
	lookedAt(s, 3, 4)
	if !s.take(hers, 25) {
		t.Fatal("there is room")
	}
	for range 1000 { // others come and go, and her share and her project's are never less than 45 and 145
		if s.keep(a, 60) || s.keep(b, 60) {
			return
		}
		lookedAt(s, 3, 4)
		if quick := run("ann", 5); s.take(quick, 5) {
			s.take(quick, -5)
		}
	}
	t.Errorf("others have taken %d bytes of 100 while two runs wait", 5000)
}

// A run that has no room in its user's share, where nobody else takes any, is in the way of no other user's run that waits for room in
// what all have.
func TestRunThatWaitsForItsUserIsInNoOthersWay(t *testing.T) {
	s := newSayings(&Config{SaidPerUser: 100, SaidPerProject: 300, Said: 300, Light: 1})
	run := func(user string, key int64) *model.RunHead {
		return &model.RunHead{Key: key, ThreadKey: key, Project: "p" + user, User: user}
	}
	if !s.take(run("ann", 1), 90) || !s.take(run("bob", 2), 100) || !s.take(run("cid", 3), 80) {
		t.Fatal("there is room")
	}
	hers, his := run("ann", 4), run("zoe", 5)
	for range 1000 { // others come and go, and never less than 270 of 300 are taken; she has a run that says nothing more
		if s.keep(hers, 60) {
			t.Fatal("she has more than her share, of which nobody has taken anything since")
		}
		if s.keep(his, 50) {
			return
		}
		lookedAt(s, 4, 5)
		if quick := run("cid", 6); s.take(quick, 5) {
			s.take(quick, -5)
		}
	}
	t.Errorf("others have taken %d bytes of 300 while his run waits", 5000)
}

// A run that has no room in its user's share and in what all have by turns waits on in both.
func TestRunThatLacksRoomByTurnsHasItsTurn(t *testing.T) {
	s := newSayings(&Config{SaidPerUser: 100, SaidPerProject: 300, Said: 300, Light: 1})
	run := func(user string, key int64) *model.RunHead {
		return &model.RunHead{Key: key, ThreadKey: key, Project: "p" + user, User: user}
	}
	if !s.take(run("ann", 1), 20) || !s.take(run("bob", 2), 100) || !s.take(run("cid", 3), 10) {
		t.Fatal("there is room")
	}
	waits, hers, his := run("ann", 4), run("ann", 5), run("cid", 6)
	for range 1000 {
		if !s.take(hers, 70) || s.keep(waits, 60) { // 90 of her 100 are taken, and 200 of 300
			return
		}
		lookedAt(s, 4)
		s.take(hers, -70)
		if !s.take(his, 20) || !s.take(run("dan", 7), 100) || s.keep(waits, 60) { // 20 of her 100, and 250 of 300
			return
		}
		lookedAt(s, 4)
		s.take(his, -20)
		s.take(run("dan", 7), -100)
	}
	t.Errorf("others have taken %d bytes of 100 of hers, and %d of 300, while it waits", 70_000, 190_000)
}

// lookedAt ends a look after which these runs still stand.
func lookedAt(s *sayings, still ...int64) {
	s.looked(func(map[int64]int64) map[int64]bool {
		all := make(map[int64]bool)
		for _, run := range still {
			all[run] = true
		}
		return all
	})
}
