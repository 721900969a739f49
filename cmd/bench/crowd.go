package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// crowdOptions are the options of bench crowd: users exceed their limits while one user stays within its limit.
type crowdOptions struct {
	users  int
	times  int           // multiple of the limit that each of them requests
	limit  int           // requests per second of a user
	size   int           // minimum bytes of each of their requests
	runs   int           // of the user within the limit
	tokens int           // of each run
	pause  time.Duration // between two runs of the user within the limit
}

func defaultCrowd() *crowdOptions {
	return &crowdOptions{users: 200, times: 10, limit: 1, runs: 100, tokens: 20, pause: 100 * time.Millisecond}
}

func crowdCommand(o *options) *cobra.Command {
	co := defaultCrowd()
	cmd := &cobra.Command{
		Use: "crowd", Short: "Runs of one user while others exceed their limits many times", Args: cobra.NoArgs,
		Long: "Crowd starts a server with accounts on the database given with --database and measures the runs of one user:\n" +
			"first alone, then while other users of the project request as much as their limit allows, then many times as much.",
		RunE: o.measure(co.bench),
	}
	cmd.Flags().IntVar(&co.users, "users", co.users, "users that exceed their limit")
	cmd.Flags().IntVar(&co.times, "times", co.times, "how many times their limit they request")
	cmd.Flags().IntVar(&co.limit, "limit", co.limit, "a user's requests per second")
	cmd.Flags().IntVar(&co.size, "size", co.size, "minimum bytes of each of their requests")
	cmd.Flags().IntVar(&co.runs, "runs", co.runs, "runs of the user within the limit")
	cmd.Flags().IntVar(&co.tokens, "tokens", co.tokens, "tokens of a run")
	cmd.Flags().DurationVar(&co.pause, "pause", co.pause, "pause between two runs of that user")
	return cmd
}

// bench measures a server that it starts.
func (o *crowdOptions) bench(ctx context.Context, all *options) ([]report, error) {
	key := uuid.NewString()
	settings := fmt.Sprintf("auth: {mode: jwt, test_plugins: true}\n"+
		"limits: {requests_per_user: %d, requests_per_project: 0}\n", o.limit)
	return all.serve(ctx, settings, []string{"BATON_JWT_SECRET=" + key}, func(ctx context.Context, t *target) ([]report, error) {
		return o.measure(ctx, t, []byte(key))
	})
}

func (o *crowdOptions) measure(ctx context.Context, t *target, key []byte) ([]report, error) {
	alone, err := o.behave(ctx, t, key, "first")
	if err != nil {
		return nil, err
	}
	r := report{name: fmt.Sprintf("%d runs of %d tokens of one user beside %d others", o.runs, o.tokens, o.users)}
	r.times("alone: POST to RUN_FINISHED", alone)
	for _, times := range []int{1, o.times} { // accepted requests cost the server more than refused ones
		if err := o.beside(ctx, t, key, times, alone, &r); err != nil {
			return nil, err
		}
	}
	return []report{r}, nil
}

// beside measures the user while the others request times their limit.
func (o *crowdOptions) beside(ctx context.Context, t *target, key []byte, times int, alone []time.Duration, r *report) error {
	others := &crowd{Addr: t.addr, Key: key, Script: o.script() + strings.Repeat(" ", o.size), Users: o.users, Times: times, Limit: o.limit}
	stop, err := others.start(ctx)
	if err != nil {
		return err
	}
	began, before := time.Now(), t.cpu()
	beside, err := o.behave(ctx, t, key, fmt.Sprintf("beside-%d", times))
	took, used := time.Since(began), t.cpu()-before
	got, stopErr := stop()
	if err = errors.Join(err, stopErr); err != nil {
		return err
	}
	name := fmt.Sprintf("at %d times their limit: ", times)
	r.times(name+"POST to RUN_FINISHED", beside)
	r.add(name+"ratio to alone (p50, p95)", "x", ratio(beside, alone, 50), ratio(beside, alone, 95))
	r.add(name+"accepted and refused runs of the others", "/s", float64(got.Taken)/got.Took.Seconds(), float64(got.Refused)/got.Took.Seconds())
	r.add(name+"server CPU", "% of a core", 100*used.Seconds()/took.Seconds())
	return nil
}

// behave makes the runs within the limit, each as another user, and returns their durations.
func (o *crowdOptions) behave(ctx context.Context, t *target, key []byte, name string) ([]time.Duration, error) {
	c, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	took := make([]time.Duration, o.runs)
	for i := range took {
		token, err := tokenOf(key, fmt.Sprintf("%s-%d", name, i), "default")
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

// ratio returns the ratio of a percentile of two lists.
func ratio(of, to []time.Duration, p int) float64 {
	of, to = slices.Sorted(slices.Values(of)), slices.Sorted(slices.Values(to))
	return percentile(of, p).Seconds() / percentile(to, p).Seconds()
}

func (o *crowdOptions) script() string { return fmt.Sprintf(`{"do": [{"tokens": %d}]}`, o.tokens) }

// tokenOf returns the Authorization header of a user of a project.
func tokenOf(key []byte, user, project string) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key}, nil)
	if err != nil {
		return "", err
	}
	claims := map[string]any{"sub": user, "projects": []string{project}, "exp": time.Now().Add(time.Hour).Unix()}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	return "Authorization: Bearer " + token + "\r\n", err
}
