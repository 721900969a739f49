package work

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/model"
)

// tokens counts what calls of models have taken for each project in the last day, by quarters of an hour: the sum is of 24 hours
// and up to 15 minutes. One instance at a time executes runs, and it reads what those before it have counted before it
// executes any; so what is here is what the database will say. A project is forgotten once it has used nothing for a day.
type tokens struct {
	limit int64 // of a project a day, 0 for none

	mu   sync.Mutex // guards the fields below
	used map[string]map[int64]int64
	full int // how many projects there are when those are looked for that can go
}

// fewProjects are never too many.
const fewProjects = 1000

func newTokens(limit int64) *tokens {
	return &tokens{limit: limit, used: make(map[string]map[int64]int64), full: fewProjects}
}

// add counts tokens of a project.
func (t *tokens) add(project string, n int64, now time.Time) {
	if n <= 0 {
		return
	}
	at := now.Truncate(model.TokenStep)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.used) >= t.full {
		for name := range t.used {
			if t.since(name, now); len(t.used[name]) == 0 {
				delete(t.used, name)
			}
		}
		t.full = max(fewProjects, 2*len(t.used))
	}
	if t.used[project] == nil {
		t.used[project] = make(map[int64]int64)
	}
	t.used[project][at.Unix()] = plus(t.used[project][at.Unix()], n)
}

// plus adds up what is not negative, to what can be told at most.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// since sums up what a project has used in the last day, and forgets what was before. The caller holds mu.
func (t *tokens) since(project string, now time.Time) (sum int64) {
	for at, n := range t.used[project] {
		switch {
		case over(at, now):
			delete(t.used[project], at)
		case !ahead(at, now):
			sum = plus(sum, n)
		}
	}
	return sum
}

// over reports whether a quarter of an hour has ended a day ago.
func over(at int64, now time.Time) bool {
	return !time.Unix(at, 0).Add(model.TokenStep + model.TokenWindow).After(now)
}

// ahead reports whether a quarter of an hour is more than a day away: a clock has counted it that was set back since, by so much that
// nobody is shut out until its time has come. It is not forgotten, as it may be now that the clock is wrong.
func ahead(at int64, now time.Time) bool { return time.Unix(at, 0).After(now.Add(model.TokenWindow)) }

// of returns what a project has used in the last day.
func (t *tokens) of(project string, now time.Time) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since(project, now)
}

// wait is how long it takes until a project may use tokens again, 0 if it may.
func (t *tokens) wait(project string, now time.Time) time.Duration {
	if t.limit <= 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.since(project, now)
	for at := now; sum >= t.limit; { // of a hundred at most
		first := int64(math.MaxInt64)
		for quarter := range t.used[project] {
			if !over(quarter, at) && !ahead(quarter, now) {
				first = min(first, quarter)
			}
		}
		if first == math.MaxInt64 {
			break
		}
		sum -= t.used[project][first]
		if at = time.Unix(first, 0).Add(model.TokenStep + model.TokenWindow); sum < t.limit {
			return max(at.Sub(now), time.Second)
		}
	}
	return 0
}

// loadTokens reads what instances before this one have counted.
func (en *Engine) loadTokens(ctx context.Context) error {
	list, err := en.store.TokensSince(ctx, time.Now().Add(-model.TokenWindow-model.TokenStep))
	for _, row := range list {
		en.tokens.add(row.Project, row.Tokens, row.At)
	}
	return err
}

// TokensOf returns how many tokens a project has used in the last day.
func (en *Engine) TokensOf(project string) int64 { return en.tokens.of(project, time.Now()) }

// Spent refuses to begin a run of a project, or to go on with one, while the project has used up its tokens; nil when it has not.
func (en *Engine) Spent(project string) *model.Error {
	wait := en.tokens.wait(project, time.Now())
	if wait <= 0 {
		return nil
	}
	err := model.Refuse(model.KindOverloaded, tokensExceeded, "Your project may use %d tokens a day, and has; try again later", en.cfg.TokensPerDay)
	err.RetryAfter = wait
	return err
}

const tokensExceeded = "tokens_exceeded"

// MayCallModel refuses a call of a model while the run's project has used up its tokens.
func (s *step) MayCallModel() error {
	en := s.l.en
	if en.tokens.wait(s.l.run.Project, time.Now()) <= 0 {
		return nil
	}
	return &plugins.Error{Code: tokensExceeded, Message: fmt.Sprintf("The project may use %d tokens a day, and has", en.cfg.TokensPerDay)}
}
