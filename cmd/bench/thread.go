package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// threadOptions are the options of bench thread: the cost of another turn in a long conversation.
type threadOptions struct {
	lengths []int // in messages
	passes  int
}

func defaultThread() *threadOptions { return &threadOptions{lengths: []int{100, 10_000}, passes: 30} }

func threadCommand(all *options) *cobra.Command {
	o := defaultThread()
	c := all.command("thread", "The next turn and the views of threads of some lengths, on a separate server", o.bench)
	c.Flags().IntSliceVar(&o.lengths, "messages", o.lengths, "`lengths` of the threads in messages")
	c.Flags().IntVar(&o.passes, "passes", o.passes, "how often each request is made")
	return c
}

func (o *threadOptions) bench(ctx context.Context, all *options) ([]report, error) {
	provider := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("word")}}))
	defer provider.Close()
	settings := fmt.Sprintf("agents:\n  model: {provider: openai, model: m, base_url: %s/v1, api_key: key}\n", provider.URL)
	return all.serve(ctx, settings, nil, func(ctx context.Context, t *target) ([]report, error) {
		var threads []string
		for _, n := range o.lengths {
			thread := newThread()
			if err := converseLong(t, thread, n); err != nil {
				return nil, err
			}
			threads = append(threads, thread)
		}
		return o.measure(ctx, t, threads)
	})
}

// converseLong makes a thread of n messages. Only a thread's first run takes messages of the assistant.
func converseLong(t *target, thread string, n int) error {
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	list := make([]message, n)
	for i := range list {
		list[i] = message{fmt.Sprint("m", i), []string{"user", "assistant"}[i%2], fmt.Sprint("Said as number ", i, " of this conversation", strings.Repeat(", and more", 25))}
	}
	return turnOf(c, "/api/v1/agent/runs", map[string]any{"agent": "echo", "threadId": thread, "messages": list})
}

type message struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Content string `json:"content"`
}

// turnOf posts a run and reads its stream to the end.
func turnOf(c *conn, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if err := errors.Join(c.send("POST", path, acceptStream, text), c.streaming()); err != nil {
		return err
	}
	for ended := false; ; {
		f, err := c.frame()
		switch {
		case errors.Is(err, io.EOF) && ended:
			return nil
		case err != nil:
			return cut(err)
		case f.kind == runError:
			return fmt.Errorf("the run has failed: %s", f.raw)
		}
		ended = ended || f.kind == runFinished
	}
}

func (o *threadOptions) measure(ctx context.Context, t *target, threads []string) ([]report, error) {
	reports := make([]report, len(threads))
	for i, n := range o.lengths {
		reports[i].name = fmt.Sprintf("A thread of %d messages", n)
	}
	for _, part := range threadParts {
		took, used := make([][]time.Duration, len(threads)), make([][]time.Duration, len(threads))
		for range o.passes {
			for i, thread := range threads { // in turns
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				d, cpu, err := timed(t, thread, part.request)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", part.name, err)
				}
				took[i], used[i] = append(took[i], d), append(used[i], cpu)
			}
		}
		for i := range threads {
			reports[i].times(part.name, took[i])
			reports[i].times("  CPU of the server", used[i])
		}
	}
	return reports, nil
}

// timed prepares a request on a new connection, sends it, and returns its duration and the CPU time that the server has used.
func timed(t *target, thread string, request func(c *conn, thread string) (func() error, error)) (took, used time.Duration, err error) {
	c, err := dial(t.addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }()
	do, err := request(c, thread)
	if err != nil {
		return 0, 0, err
	}
	began, before := time.Now(), t.cpu()
	err = do()
	return time.Since(began), t.cpu() - before, err
}

// threadParts are the measured requests. Each prepares a request and returns the function to measure.
var threadParts = []struct {
	name    string
	request func(c *conn, thread string) (func() error, error)
}{
	{"next run of echo, POST to RUN_FINISHED", func(c *conn, thread string) (func() error, error) {
		return func() error {
			return turnOf(c, "/api/v1/agent/runs", map[string]any{"agent": "echo", "threadId": thread, "content": "go"})
		}, nil
	}},
	{"next run of a model, POST to RUN_FINISHED", func(c *conn, thread string) (func() error, error) {
		return func() error {
			return turnOf(c, "/api/v1/agent/runs", map[string]any{"agent": "model", "threadId": thread, "content": "go"})
		}, nil
	}},
	{"AG-UI POST with a view of up to 2,000 messages", func(c *conn, thread string) (func() error, error) {
		var view struct {
			Messages []json.RawMessage `json:"messages"`
			State    json.RawMessage   `json:"state"`
		}
		text, err := get(c, "/api/v1/threads/"+thread+"/messages")
		if err == nil {
			err = json.Unmarshal(text, &view)
		}
		if err != nil {
			return nil, err
		}
		next, err := json.Marshal(message{newThread(), "user", "go"})
		if err != nil {
			return nil, err
		}
		body := map[string]any{
			"threadId": thread, "runId": newThread(), "messages": append(view.Messages, next), "state": view.State,
			"tools": []any{}, "context": []any{}, "forwardedProps": map[string]any{},
		}
		return func() error { return turnOf(c, "/api/v1/agui/echo", body) }, nil
	}},
	{"GET messages?limit=50", func(c *conn, thread string) (func() error, error) {
		return func() error {
			_, err := get(c, "/api/v1/threads/"+thread+"/messages?limit=50")
			return err
		}, nil
	}},
	{"GET the history's last day", func(c *conn, thread string) (func() error, error) {
		return func() error {
			_, err := get(c, "/api/v1/agent/history?threadId="+thread)
			return err
		}, nil
	}},
	{"connect", func(c *conn, thread string) (func() error, error) {
		return func() error { return turnOf(c, "/api/v1/agui/echo/connect", map[string]any{"threadId": thread}) }, nil
	}},
}

func get(c *conn, path string) ([]byte, error) {
	if err := c.send("GET", path, "", nil); err != nil {
		return nil, err
	}
	return c.answer(200)
}
