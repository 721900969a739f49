package stream

import (
	"sync"
	"testing"
	"time"
	"weak"
)

func TestMemoryIsGivenBackWhenACrowdHasLeft(t *testing.T) {
	s := NewSet(Config{Ping: 15 * time.Millisecond})
	var writers []*Writer
	for range 1000 {
		w := &Writer{set: s, cancel: func(error) {}}
		w.nextPing.Store(never)
		s.add(w)
		writers = append(writers, w)
	}
	var pool sync.Pool
	puts := make(chan weak.Pointer[[1 << 10]byte])
	go func() { // on a stack of its own, which may hold what it has put for a while
		kept := new([1 << 10]byte)
		pool.Put(kept)
		puts <- weak.Make(kept)
	}()
	held := <-puts
	for _, w := range writers {
		s.remove(w)
	}
	s.tasks.Wait() // for the sweep, which ends when no stream is open
	if held.Value() != nil {
		t.Error("what a pool kept for a crowd that has left is still held")
	}
}

func TestMemoryIsCollectedWhenHalfOfACrowdHasLeft(t *testing.T) {
	for _, test := range []struct {
		name string
		open []int // at each look
		want int   // collections
	}{
		{"few came", []int{100, 0, 0, 0, 0}, 0},
		{"they stay", []int{1000, 600, 1000, 600, 600}, 0},
		{"half leave", []int{1000, 500, 500, 500, 500, 500}, 3},
		{"they leave one after the other", []int{1000, 400, 300, 190, 90, 0, 0, 0, 0, 0}, 5},
		{"they come again", []int{1000, 0, 1000, 1000, 1000, 0, 0, 0, 0}, 6},
	} {
		var tide tide
		got := 0
		for _, n := range test.open {
			tide.rise(n)
			if tide.ebb(n, true) {
				t.Errorf("%s: two collections at once", test.name)
			}
			if tide.ebb(n, false) {
				got++
			}
		}
		if got != test.want {
			t.Errorf("%s: got %d collections, want %d", test.name, got, test.want)
		}
	}
}
