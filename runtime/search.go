package runtime

import "sync"

// maxSearches is how many pages one may ask for at a time, those that wait included, for each of which thousands of rows are
// looked at. Others' searches wait behind them.
const maxSearches = 8

var errSearches = refuse(KindOverloaded, "too_many_searches", "You may have %d searches under way at a time; wait for one of them", maxSearches)

// searches counts those that are under way. Its zero value is ready.
type searches struct {
	mu sync.Mutex // guards by
	by map[searcher]int
}

// searcher is who has asked, whoever's runs it is about.
type searcher struct{ project, actor string }

// search counts one until end is called, or refuses it. Without accounts all are one, and no one is refused.
func (rt *Runtime) search(c Caller) (end func(), err error) {
	if !rt.cfg.Accounts {
		return func() {}, nil
	}
	s, who := &rt.searches, searcher{c.project, c.Actor()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[who] >= maxSearches {
		return nil, errSearches
	}
	if s.by == nil {
		s.by = make(map[searcher]int)
	}
	s.by[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.by[who]--; s.by[who] == 0 {
			delete(s.by, who)
		}
	}, nil
}
