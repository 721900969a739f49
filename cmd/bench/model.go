package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// modelOptions are the options of bench models. This process plays the model provider.
type modelOptions struct {
	atOnce int
	total  int
	tokens int
	pace   time.Duration // between two tokens
}

// bench measures runs of an agent with a language model, on a server that it starts, and a bare HTTP client that reads the same
// streams.
func (o *modelOptions) bench(ctx context.Context, all *options) ([]report, error) {
	provider := llmtest.New(llmtest.Always(llmtest.Script{Steps: llmtest.Tokens(o.tokens, "word"), Pace: o.pace}))
	defer provider.Close()
	settings := fmt.Sprintf("agents:\n  model: {provider: openai, model: m, base_url: %s/v1, api_key: key}\n", provider.URL)
	return all.serve(ctx, settings, nil, func(ctx context.Context, t *target) ([]report, error) {
		return o.measure(ctx, t, provider.URL)
	})
}

func (o *modelOptions) measure(ctx context.Context, t *target, provider string) ([]report, error) {
	bare := func() error { return readBare(ctx, provider) }
	run := func() error { return converse(ctx, t, "model", "go") }
	for _, warm := range []func() error{bare, run} {
		if err := warm(); err != nil {
			return nil, err
		}
	}
	alone, err := o.play(bare)
	if err != nil {
		return nil, err
	}
	before := t.cpu()
	took, err := o.play(run)
	if err != nil {
		return nil, err
	}
	used := t.cpu() - before
	before = t.cpu()
	if _, err := o.play(func() error { return converse(ctx, t, "scripted", o.script()) }); err != nil {
		return nil, err
	}
	scripted := t.cpu() - before
	r := report{name: fmt.Sprintf("%d model answers of %d tokens, %d at once, %v per token", o.total, o.tokens, o.atOnce, o.pace)}
	r.times("bare client", alone)
	r.times("POST to RUN_FINISHED", took)
	r.add("server CPU per token", "µs", micros(used)/float64(o.total*o.tokens))
	r.add("server CPU per token, beyond that of a scripted agent", "µs", micros(used-scripted)/float64(o.total*o.tokens))
	return []report{r}, nil
}

// play calls one o.total times, o.atOnce at a time, and returns the durations.
func (o *modelOptions) play(one func() error) ([]time.Duration, error) {
	took := make([]time.Duration, o.total)
	var group errgroup.Group
	group.SetLimit(o.atOnce)
	for i := range took {
		group.Go(func() error {
			began := time.Now()
			err := one()
			took[i] = time.Since(began)
			return err
		})
	}
	return took, group.Wait()
}

// readBare reads and discards an answer of the provider.
func readBare(ctx context.Context, url string) error {
	const body = `{"model": "m", "stream": true, "messages": [{"role": "user", "content": "go"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}

// script returns a script that says as much as the model, at its pace.
func (o *modelOptions) script() string {
	return fmt.Sprintf(`{"do": [{"tokens": %d, "delayMs": %d}]}`, o.tokens, o.pace.Milliseconds())
}

// converse starts a run of an agent and reads it to its end.
func converse(ctx context.Context, t *target, agent, content string) error {
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	body := fmt.Appendf(nil, `{"agent": %q, "threadId": %q, "content": %q}`, agent, newThread(), content)
	if err := c.send("POST", "/api/v1/agent/runs", acceptStream, body); err != nil {
		return err
	}
	if err := c.streaming(); err != nil {
		return err
	}
	_, err = c.watch()
	return err
}

// models returns the benches of Baton's published figures.
func models() []bench {
	return []bench{
		(&modelOptions{atOnce: 1, total: 20, tokens: 1000}).bench,
		(&modelOptions{atOnce: 1, total: 3, tokens: 1000, pace: time.Millisecond}).bench,
		(&modelOptions{atOnce: 500, total: 500, tokens: 100, pace: 20 * time.Millisecond}).bench,
	}
}
