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

// tokens counts the tokens that model calls of each project have used in the last day, by quarters of an hour: the sum is of
// 24 hours and up to 15 minutes. Only one instance at a time executes runs, and it first reads the counts of the instances
// before it; so these counts agree with the database. A project is forgotten once it has used nothing for a day.
type tokens struct {
	limit int64 // of a project a day, 0 for none

	mu   sync.Mutex // guards the fields below
	used map[string]map[int64]int64
	full int // the number of projects at which unused ones are removed
}

// fewProjects is a number of projects that is never too large.
const fewProjects = 1000

func newTokens(limit int64) *tokens {
	return &tokens{limit: limit, used: make(map[string]map[int64]int64), full: fewProjects}
}

// addTokens counts tokens of a project.
func (t *tokens) addTokens(project string, n int64, now time.Time) {
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

// plus adds two numbers that are not negative, up to the largest int64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// since returns the sum of a project's tokens in the last day, and removes older counts. The caller holds mu.
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

// ahead reports whether a quarter of an hour is more than a day in the future: it was counted before a clock was set back.
// Such a count blocks no project until its time has come. It is not removed, because the clock may be wrong now.
func ahead(at int64, now time.Time) bool { return time.Unix(at, 0).After(now.Add(model.TokenWindow)) }

// of returns the tokens that a project has used in the last day.
func (t *tokens) of(project string, now time.Time) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since(project, now)
}

// wait returns how long a project must wait until it may use tokens again, 0 if it may now.
func (t *tokens) wait(project string, now time.Time) time.Duration {
	if t.limit <= 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.since(project, now)
	for at := now; sum >= t.limit; { // a hundred at most
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

// loadTokens reads the counts of the instances before this one.
func (t *tokens) loadTokens(ctx context.Context, store model.Store) error {
	list, err := store.TokensSince(ctx, time.Now().Add(-model.TokenWindow-model.TokenStep))
	for _, row := range list {
		t.addTokens(row.Project, row.Tokens, row.At)
	}
	return err
}

// TokensOf returns how many tokens a project has used in the last day.
func (t *tokens) TokensOf(project string) int64 { return t.of(project, time.Now()) }

// Spent returns the refusal to begin or continue a run of a project that has used up its tokens, or nil when it has not.
func (t *tokens) Spent(project string) *model.Error {
	wait := t.wait(project, time.Now())
	if wait <= 0 {
		return nil
	}
	err := model.Refuse(model.KindOverloaded, tokensExceeded, "Your project may use %d tokens a day, and has; try again later", t.limit)
	err.RetryAfter = wait
	return err
}

const tokensExceeded = "tokens_exceeded"

// MayCallModel refuses a call of a model while the run's project has used up its tokens.
func (s *step) MayCallModel() error {
	used := s.l.en.tokens
	if used.wait(s.l.run.Project, time.Now()) <= 0 {
		return nil
	}
	return &plugins.Error{Code: tokensExceeded, Message: fmt.Sprintf("The project may use %d tokens a day, and has", used.limit)}
}
