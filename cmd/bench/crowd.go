package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// crowdOptions says who asks for more than their share while one user goes on as before.
type crowdOptions struct {
	users  int
	times  int           // their limit that each of them asks for
	limit  int           // requests per second of a user
	runs   int           // of the one who keeps to the limit
	tokens int           // of each run
	pause  time.Duration // between two of that one's runs
}

func defaultCrowd() *crowdOptions {
	return &crowdOptions{users: 200, times: 10, limit: 1, runs: 100, tokens: 20, pause: 100 * time.Millisecond}
}

func crowdCommand(o *options) *cobra.Command {
	co := defaultCrowd()
	cmd := &cobra.Command{
		Use: "crowd", Short: "Runs of one user while others ask for many times their limits", Args: cobra.NoArgs,
		Long: "Crowd measures a server of its own, with accounts, on the database given with --database: first one user alone,\n" +
			"then the same user while others of its project each ask for many times what their limit lets pass.",
		RunE: o.measure(func(ctx context.Context, _ *target) ([]report, error) { return co.on(ctx, o.database) }),
	}
	cmd.Flags().IntVar(&co.users, "users", co.users, "users who ask for more than they may")
	cmd.Flags().IntVar(&co.times, "times", co.times, "how many times their limit they ask for")
	cmd.Flags().IntVar(&co.limit, "limit", co.limit, "a user's requests per second")
	cmd.Flags().IntVar(&co.runs, "runs", co.runs, "runs of the user who keeps to the limit")
	cmd.Flags().IntVar(&co.tokens, "tokens", co.tokens, "tokens of a run")
	cmd.Flags().DurationVar(&co.pause, "pause", co.pause, "between two runs of that user")
	return cmd
}

// bench measures on a SQLite database.
func (o *crowdOptions) bench(ctx context.Context, _ *target) ([]report, error) { return o.on(ctx, "") }

func (o *crowdOptions) on(ctx context.Context, database string) (_ []report, err error) {
	dir, err := os.MkdirTemp("", "baton-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if database == "" {
		database = "sqlite:" + filepath.Join(dir, "baton.db")
	}
	secret, file := filepath.Join(dir, "secret"), filepath.Join(dir, "baton.yaml")
	key := []byte(uuid.NewString())
	settings := fmt.Sprintf("auth: {mode: jwt, secret_file: %s, test_plugins: true}\n"+
		"limits: {requests_per_user: %d, burst_per_user: %d, requests_per_project: 0}\n", secret, o.limit, 4*o.limit)
	if err := errors.Join(os.WriteFile(secret, key, 0o600), os.WriteFile(file, []byte(settings), 0o600)); err != nil {
		return nil, err
	}
	t, stop, err := startProcess(ctx, "serve", "--config", file, "--listen", "127.0.0.1:0", "--log-level", "error", "--database", database)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()

	alone, err := o.behave(ctx, t, key, "first")
	if err != nil {
		return nil, err
	}
	crowded, cancel := context.WithCancel(ctx)
	defer cancel()
	var c crowd
	var group errgroup.Group
	for i := range o.users {
		group.Go(func() error { return o.press(crowded, t, key, i, &c) })
	}
	if err := pause(ctx, time.Second+6*time.Second/time.Duration(o.limit)); err != nil { // until their bursts are spent
		return nil, err
	}
	began, before := time.Now(), c.counted()
	beside, err := o.behave(ctx, t, key, "second")
	after, took := c.counted(), time.Since(began)
	cancel()
	if err = errors.Join(err, group.Wait()); err != nil {
		return nil, err
	}
	r := report{name: fmt.Sprintf("%d runs of %d tokens of one user beside %d users at %d times their limit", o.runs, o.tokens, o.users, o.times)}
	r.times("alone: POST to RUN_FINISHED", alone)
	r.times("beside them: POST to RUN_FINISHED", beside)
	r.add("of theirs, taken and refused with 429", "/s", float64(after.taken-before.taken)/took.Seconds(), float64(after.refused-before.refused)/took.Seconds())
	return []report{r}, nil
}

// behave makes the runs of users who keep to their limit, each run another's, and tells what each took.
func (o *crowdOptions) behave(ctx context.Context, t *target, key []byte, name string) ([]time.Duration, error) {
	c, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	took := make([]time.Duration, o.runs)
	for i := range took {
		token, err := tokenOf(key, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := c.send("POST", "/api/v1/agent/runs", acceptStream+token, body(newThread(), o.script())); err != nil {
			return nil, err
		}
		if err := c.streaming(); err != nil {
			return nil, err
		}
		if _, err := c.watch(); err != nil {
			return nil, err
		}
		took[i] = time.Since(began)
		if err := pause(ctx, o.pause); err != nil {
			return nil, err
		}
	}
	return took, nil
}

func (o *crowdOptions) script() string { return fmt.Sprintf(`{"do": [{"tokens": %d}]}`, o.tokens) }

// crowd is what the others have got.
type crowd struct{ taken, refused atomic.Int64 }

type count struct{ taken, refused int64 }

func (c *crowd) counted() count { return count{c.taken.Load(), c.refused.Load()} }

// press asks for runs, many times as many as the user may start, until ctx ends.
func (o *crowdOptions) press(ctx context.Context, t *target, key []byte, user int, seen *crowd) error {
	token, err := tokenOf(key, fmt.Sprintf("crowd-%d", user))
	if err != nil {
		return err
	}
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	gap, turn := time.Second/time.Duration(o.times*o.limit), time.Second/time.Duration(o.limit)
	// What is taken of a user comes once a turn, counted from the first request: users who all began within one gap would
	// stay in step and have all their runs taken within one gap of each turn.
	if pause(ctx, turn*time.Duration(user)/time.Duration(o.users)) != nil {
		return nil
	}
	ticks := time.NewTicker(gap)
	defer ticks.Stop()
	for {
		if err := c.send("POST", "/api/v1/agent/runs", "Accept: application/json\r\n"+token, body(newThread(), o.script())); err != nil {
			return err
		}
		status, err := c.receive()
		if err != nil {
			return err
		}
		text, err := c.text()
		switch {
		case err != nil:
			return err
		case status == 202:
			seen.taken.Add(1)
		case status == 429:
			seen.refused.Add(1)
		default:
			return fmt.Errorf("status %d: %s", status, text)
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// tokenOf is the header of a user of the one project there is.
func tokenOf(key []byte, user string) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key}, nil)
	if err != nil {
		return "", err
	}
	claims := map[string]any{"sub": user, "projects": []string{"default"}, "exp": time.Now().Add(time.Hour).Unix()}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	return "Authorization: Bearer " + token + "\r\n", err
}
