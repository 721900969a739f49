package llm_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/pace"
	"github.com/batonrun/baton/plugins/plugintest"
)

// strict is a model whose provider refuses calls above sixty in a minute.
type strict struct {
	llms.Model
	pacer *pace.Pacer

	mu       sync.Mutex
	calls    []time.Time // with the refused ones
	accepted []time.Time
}

func (s *strict) Pacer() (p *pace.Pacer, model string) { return s.pacer, "m" }

// since counts the times within the last minute.
func since(times []time.Time, now time.Time) (n int) {
	for i := len(times) - 1; i >= 0 && now.Sub(times[i]) < time.Minute; i-- {
		n++
	}
	return n
}

func (s *strict) Stream(_ context.Context, _ llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	now := time.Now()
	s.mu.Lock()
	s.calls = append(s.calls, now)
	full := since(s.accepted, now) >= 60
	if !full {
		s.accepted = append(s.accepted, now)
	}
	s.mu.Unlock()
	if full {
		return llm.Response{}, &llm.Error{Code: "rate_limited", Status: 429, Message: "Slow down", Retryable: true, RetryAfter: time.Second}
	}
	<-time.After(time.Second / 2)
	return llm.Response{Text: "hello", Finish: "stop"}, show(llm.Piece{Text: "hello"})
}

// A thousand runs of ten users, one with nine hundred, end well on a provider that takes sixty calls in a minute and gets no more. The other
// users do not wait for the one.
func TestPace_CrowdOfRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &strict{pacer: pace.New()}
		s.pacer.Configure(pace.Limits{Requests: 60})
		a := newAgent(t, llm.Config{Model: s})
		began := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		ended := make(map[string]time.Duration) // of each user's last run
		run := func(user string) {
			res, err := plugintest.Execute(t.Context(), a, plugintest.Config{Input: plugins.Input{Query: "go", Project: "p", User: user}})
			if err != nil || res.Err != nil || res.Output.Answer != "hello" {
				t.Errorf("a run of %s: %v, %v, %+v", user, err, res.Err, res.Output)
			}
			mu.Lock()
			defer mu.Unlock()
			ended[user] = time.Since(began)
		}
		for range 900 {
			all.Go(func() { run("busy") })
		}
		synctest.Wait() // the busy user is in line first
		for i := range 100 {
			all.Go(func() { run(fmt.Sprint("user ", i%9)) })
		}
		all.Wait()
		most := 0
		for i, at := range s.calls {
			most = max(most, since(s.calls[:i+1], at))
		}
		if len(s.accepted) != 1000 || most > 61 { // 2 % more than the limit
			t.Errorf("%d calls are accepted; the provider gets %d in a minute", len(s.accepted), most)
		}
		for user, took := range ended {
			if user != "busy" && took > 3*time.Minute || user == "busy" && took < 15*time.Minute {
				t.Errorf("the runs of %s end after %v", user, took)
			}
		}
	})
}
