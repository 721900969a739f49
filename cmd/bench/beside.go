package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// besideOptions are the options of bench beside: a user makes runs while one of another project makes small requests that are much work.
type besideOptions struct {
	kinds  []string
	runs   int
	atOnce int // requests of the other
	bytes  int // of the run that the other reads, copies or deletes
	small  int // runs that it finds or deletes at most
	pause  time.Duration
}

func besideCommand(o *options) *cobra.Command {
	bo := &besideOptions{runs: 100, atOnce: 16, bytes: 7 << 20, small: 4000, pause: 50 * time.Millisecond}
	for kind := range heavy {
		bo.kinds = append(bo.kinds, kind)
	}
	slices.Sort(bo.kinds)
	cmd := &cobra.Command{
		Use: "beside", Short: "Runs of one user beside small requests that make the server read and write much", Args: cobra.NoArgs,
		Long: "Beside starts a server with accounts for each kind, on the database given with --database, and measures the runs\n" +
			"of one user: first alone, then while a user of another project makes requests of that kind as fast as it may.",
		RunE: o.measure(bo.bench),
	}
	cmd.Flags().StringSliceVar(&bo.kinds, "kinds", bo.kinds, "kinds of requests")
	cmd.Flags().IntVar(&bo.runs, "runs", bo.runs, "runs of the user")
	cmd.Flags().IntVar(&bo.atOnce, "at-once", bo.atOnce, "requests of the other at once")
	cmd.Flags().IntVar(&bo.bytes, "bytes", bo.bytes, "bytes of the run that the other reads, copies or deletes")
	cmd.Flags().IntVar(&bo.small, "small", bo.small, "runs of the other that lists, searches and deletions find at most")
	cmd.Flags().DurationVar(&bo.pause, "pause", bo.pause, "pause between two runs of the user")
	return cmd
}

func (o *besideOptions) bench(ctx context.Context, all *options) ([]report, error) {
	var reports []report
	for _, kind := range o.kinds {
		if heavy[kind] == nil {
			return nil, fmt.Errorf("there is no kind %q", kind)
		}
		key := uuid.NewString()
		rs, err := all.serve(ctx, "auth: {mode: jwt, test_plugins: true}\nattachments: {types: []}\n", []string{"BATON_JWT_SECRET=" + key},
			func(ctx context.Context, t *target) ([]report, error) { return o.measure(ctx, t, []byte(key), kind) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		reports = append(reports, rs...)
	}
	return reports, nil
}

func (o *besideOptions) measure(ctx context.Context, t *target, key []byte, kind string) ([]report, error) {
	user := &crowdOptions{runs: o.runs, tokens: 20, pause: o.pause}
	load := &loads{Addr: t.addr, Key: key, Kind: kind, AtOnce: o.atOnce, Bytes: o.bytes, Small: o.small}
	begin, stop, err := load.start(ctx)
	if err != nil {
		return nil, err
	}
	alone, err := user.behave(ctx, t, key, "alone")
	if err != nil {
		return nil, err
	}
	if err := begin(); err != nil {
		return nil, err
	}
	most, watching, ended := rss(t.pid), make(chan struct{}), make(chan struct{})
	go func() { // ends with watching
		defer close(ended)
		for {
			select {
			case <-time.After(20 * time.Millisecond):
				most = max(most, rss(t.pid))
			case <-watching:
				return
			}
		}
	}()
	wrote := written(t.pid)
	beside, err := user.behave(ctx, t, key, "beside")
	close(watching)
	<-ended
	got, stopErr := stop()
	if err := errors.Join(err, stopErr); err != nil {
		return nil, err
	}
	r := report{name: fmt.Sprintf("%d runs of 20 tokens beside: %s", o.runs, kind)}
	r.times("alone: POST to RUN_FINISHED", alone)
	r.times("beside: POST to RUN_FINISHED", beside)
	r.add("ratio to alone (p50, p95)", "x", ratio(beside, alone, 50), ratio(beside, alone, 95))
	r.add("requests of the other that were accepted, and refused", "", float64(got.Taken), float64(got.Refused))
	r.add("server memory at most", "MiB", float64(most)/(1<<20))
	r.add("written by the server", "MiB", float64(written(t.pid)-wrote)/(1<<20))
	return []report{r}, nil
}

// loads is a user that makes requests of a kind, in a process of its own.
type loads struct {
	Addr                 string
	Key                  []byte
	Kind                 string
	AtOnce, Bytes, Small int

	token string
}

// start starts the process and returns when what the requests need is there. begin begins the requests; stop ends the process.
func (l *loads) start(ctx context.Context) (begin func() error, stop func() (pressed, error), err error) {
	p, err := background(ctx, "load", l)
	if err != nil {
		return nil, nil, err
	}
	begin = func() error {
		_, err := io.WriteString(p.in, "\n")
		return err
	}
	return begin, p.stop, nil
}

// load is the process of loads.
func load(in io.Reader, out io.Writer) error {
	var l loads
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	if l.token, err = tokenOf(l.Key, "other", "elsewhere"); err != nil {
		return err
	}
	request, err := heavy[l.Kind](&l)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(true); err != nil {
		return err
	}
	if _, err := lines.ReadByte(); err != nil { // waits for begin
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	var p pressed
	began := time.Now()
	for range l.AtOnce {
		group.Go(func() error { return l.make(ctx, request, &p) })
	}
	_, ended := lines.ReadByte() // waits for the end of in
	cancel()
	if err := group.Wait(); err != nil || !errors.Is(ended, io.EOF) {
		return errors.Join(err, ended)
	}
	p.Took = time.Since(began)
	return json.NewEncoder(out).Encode(p)
}

// make makes one request after another.
func (l *loads) make(ctx context.Context, request requestOf, p *pressed) error {
	c, err := dial(l.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for ctx.Err() == nil {
		method, path, body := request()
		status, err := l.ask(c, method, path, body)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if c, err = dial(l.Addr); err != nil { // a refusal of a large body ends the connection
				return err
			}
			defer func() { _ = c.Close() }()
		case status < 300:
			atomic.AddInt64(&p.Taken, 1)
		case status == 429 || status == 503:
			atomic.AddInt64(&p.Refused, 1)
			_ = pause(ctx, 200*time.Millisecond)
		default:
			return fmt.Errorf("%s %s: status %d", method, path, status)
		}
	}
	return nil
}

func (l *loads) ask(c *conn, method, path string, body []byte) (int, error) {
	if err := c.send(method, path, l.token, body); err != nil {
		return 0, err
	}
	status, err := c.receive()
	if err != nil {
		return 0, err
	}
	for err == nil {
		err = c.more()
		c.b = len(c.body)
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	return status, nil
}

// requestOf returns the next request.
type requestOf func() (method, path string, body []byte)

// run makes a run and waits for its end. It returns its thread and the run.
func (l *loads) run(token, content string, more map[string]any) (thread, run string, err error) {
	thread, run = newThread(), uuid.NewString()
	body := map[string]any{"agent": "scripted", "threadId": thread, "runId": run, "content": content}
	if !strings.HasPrefix(content, "{") {
		body["agent"] = "echo"
	}
	maps.Copy(body, more)
	text, err := json.Marshal(body)
	for again := true; again && err == nil; {
		again, err = l.tryRun(token, text)
	}
	return thread, run, err
}

// tryRun sends the body of a run and waits for the run's end. It reports whether to send it again, after a refusal.
func (l *loads) tryRun(token string, body []byte) (again bool, err error) {
	c, err := dial(l.Addr) // a refusal of a large body ends the connection
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close() }()
	if err := c.send("POST", "/api/v1/agent/runs", acceptStream+token, body); err != nil {
		return false, err
	}
	switch status, err := c.receive(); {
	case err != nil:
		return false, err
	case status == 429:
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // a refused client pauses
		return true, nil
	case status != 200:
		answer, _ := c.text()
		return false, fmt.Errorf("status %d: %s", status, answer)
	}
	_, err = c.watch()
	return false, err
}

// large makes the run of many bytes.
func (l *loads) large() (thread, run string, err error) {
	return l.run(l.token, `{"do": [{"tokens": 20}]}`+strings.Repeat(" ", l.Bytes), nil)
}

// many makes many runs of distinct words, with more in each, and lets several requests be under way.
func (l *loads) many(n int, more map[string]any) error {
	group := errgroup.Group{}
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			_, _, err := l.run(l.token, fmt.Sprintf("alpha%d beta%d gamma%d alone alike alien almost%s", i, i, i, words(i)), more)
			return err
		})
	}
	return group.Wait()
}

func words(i int) string {
	var b strings.Builder
	for n := range 50 {
		fmt.Fprintf(&b, " al%dx%d", (i*50+n)%5000, n)
	}
	return b.String()
}

func fixed(method, path string, body []byte) requestOf {
	return func() (string, string, []byte) { return method, path, body }
}

func agentRuns(rest string) string { return "/api/projects/elsewhere/agent-runs" + rest }

// heavy are the kinds of requests. Each makes what its requests need.
var heavy = map[string]func(l *loads) (requestOf, error){
	"rerun": func(l *loads) (requestOf, error) {
		_, run, err := l.large()
		return fixed("POST", agentRuns("/"+run+"/rerun"), []byte("{}")), err
	},
	"post": func(l *loads) (requestOf, error) { // the same bytes as a body, to compare
		content := `{"do": [{"tokens": 20}]}` + strings.Repeat(" ", l.Bytes)
		return func() (string, string, []byte) { return "POST", "/api/v1/agent/runs", body(newThread(), content) }, nil
	},
	"snapshot": func(l *loads) (requestOf, error) {
		thread, run, err := l.large()
		return fixed("GET", "/api/v1/conversations/"+thread+"/agent-runs/"+run+"/snapshot", nil), err
	},
	"messages": func(l *loads) (requestOf, error) {
		thread, _, err := l.large()
		return fixed("GET", "/api/v1/threads/"+thread+"/messages", nil), err
	},
	"history": func(l *loads) (requestOf, error) {
		thread, _, err := l.large()
		return fixed("GET", "/api/v1/agent/history?threadId="+thread, nil), err
	},
	"events": func(l *loads) (requestOf, error) {
		thread, run, err := l.run(l.token, fmt.Sprintf(`{"do": [{"tokens": %d, "size": 100}]}`, l.Bytes/350), nil)
		return fixed("GET", "/api/v1/conversations/"+thread+"/agent-runs/"+run+"/events?limit=200", nil), err
	},
	"stream": func(l *loads) (requestOf, error) {
		thread, _, err := l.run(l.token, fmt.Sprintf(`{"do": [{"tokens": %d, "size": 100}]}`, l.Bytes/350), nil)
		return fixed("GET", events(thread)+"?follow=false", nil), err
	},
	"list": func(l *loads) (requestOf, error) { // of rows that are as large as they may be
		return fixed("GET", agentRuns("?limit=100"), nil), l.many(min(100, l.Small), map[string]any{"contextItemIds": longIDs()})
	},
	"search": func(l *loads) (requestOf, error) {
		var n atomic.Int64
		err := l.many(l.Small, nil)
		return func() (string, string, []byte) {
			text := []string{"al", "a", "alone al", "zeta al"}[n.Add(1)%4]
			return "GET", agentRuns("?limit=100&count=true&q=" + url.QueryEscape(text)), nil
		}, err
	},
	"ids": func(l *loads) (requestOf, error) {
		ids := longIDs()
		return func() (string, string, []byte) {
			text, _ := json.Marshal(map[string]any{"agent": "scripted", "threadId": newThread(), "content": `{"do": [{"tokens": 1}]}`, "contextItemIds": ids})
			return "POST", "/api/v1/agent/runs", text
		}, nil
	},
	"delete": func(l *loads) (requestOf, error) {
		var mu sync.Mutex
		var threads []string
		for range min(10, l.Small) {
			thread, _, err := l.large()
			if err != nil {
				return nil, err
			}
			threads = append(threads, thread)
		}
		return func() (string, string, []byte) {
			mu.Lock()
			defer mu.Unlock()
			if len(threads) == 0 {
				return "GET", "/api/v1/me", nil
			}
			thread := threads[0]
			threads = threads[1:]
			return "DELETE", "/api/v1/threads/" + thread, nil
		}, nil
	},
}

// longIDs are as many contextItemIds as a request may have, as long as they may be.
func longIDs() (ids []string) {
	for i := range 1000 {
		ids = append(ids, fmt.Sprintf("%04d", i)+strings.Repeat("x", 252))
	}
	return ids
}
