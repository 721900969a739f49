package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/transports/wire"
)

func runsCommand() *cobra.Command {
	var server target
	var q runsQuery
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs on a server, to find stuck ones",
		Long: "Runs lists the open runs, oldest first, with their age, current step and last event. A stuck run is old, and its\n" +
			"last event too. With --all it lists all runs, newest first.\n\n" + clientHelp,
		Example: "  baton runs\n  baton runs --all --status FAILED --since 1h --json",
		Args:    knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(cmd, server)
			if err != nil {
				return err
			}
			runs, err := c.list(cmd.Context(), &q)
			if err != nil {
				return err
			}
			if q.json {
				return printJSON(cmd.OutOrStdout(), runs)
			}
			return writeTable(cmd.OutOrStdout(), runs, time.Now())
		},
	}
	clientFlags(cmd, &server)
	cmd.Flags().BoolVar(&q.all, "all", false, "list ended runs, too")
	cmd.Flags().StringVar(&q.status, "status", "", "only runs with this `status`: QUEUED, RUNNING, WAITING, COMPLETED, FAILED or CANCELLED")
	cmd.Flags().StringVar(&q.agent, "agent", "", "only runs of this `agent`")
	cmd.Flags().StringVar(&q.thread, "thread", "", "only runs of this `thread`")
	cmd.Flags().DurationVar(&q.since, "since", 0, "only runs younger than this, such as 1h")
	cmd.Flags().IntVar(&q.limit, "limit", 50, "largest number of runs, up to 500")
	cmd.Flags().BoolVar(&q.json, "json", false, "print each run as a line of JSON")
	cmd.AddCommand(showCommand(), exportCommand(), rerunCommand())
	return cmd
}

// runsQuery selects the runs to list.
type runsQuery struct {
	all, json             bool
	status, agent, thread string
	since                 time.Duration
	limit                 int
}

// listedRun is a run with its current nodes.
type listedRun struct {
	wire.Run
	Nodes []wire.Node `json:"currentNodes"` // nodes that run or wait
}

// list returns the runs, open ones with their current nodes.
func (c *client) list(ctx context.Context, q *runsQuery) ([]listedRun, error) {
	all, err := c.page(ctx, q)
	for i := range all {
		if err := c.addProgress(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, err
}

// page returns the runs without their nodes.
func (c *client) page(ctx context.Context, q *runsQuery) ([]listedRun, error) {
	statuses := []string{strings.ToUpper(q.status)}
	if q.status == "" && !q.all {
		statuses = []string{"RUNNING", "WAITING", "QUEUED"}
	}
	all := []listedRun{}
	for _, status := range statuses {
		params := url.Values{"limit": {strconv.Itoa(q.limit)}}
		if len(statuses) > 1 {
			params.Set("order", "oldest")
		}
		for key, value := range map[string]string{"status": status, "agent": q.agent, "threadId": q.thread} {
			if value != "" {
				params.Set(key, value)
			}
		}
		if q.since > 0 {
			params.Set("since", time.Now().Add(-q.since).UTC().Format(time.RFC3339))
		}
		var page wire.Page[wire.Run]
		if err := c.do(ctx, http.MethodGet, c.runs()+"?"+params.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			all = append(all, listedRun{Run: page.Items[i]})
		}
	}
	if len(statuses) > 1 {
		slices.SortStableFunc(all, func(a, b listedRun) int { return a.CreatedAt.Compare(b.CreatedAt) })
	}
	return all[:min(len(all), q.limit)], nil
}

// addProgress adds the current nodes and last event of an open run. A run that was deleted meanwhile stays as it was.
func (c *client) addProgress(ctx context.Context, r *listedRun) error {
	r.Nodes = []wire.Node{}
	if r.Status.Final() {
		return nil
	}
	var nodes wire.Items[wire.Node]
	if err := c.getWithRetry(ctx, c.run(r.User, r.ID, "node-states"), &nodes); err != nil {
		return ignoreNotFound(err)
	}
	for _, n := range nodes.Items {
		if n.Status == "RUNNING" || n.Status == "WAITING" {
			r.Nodes = append(r.Nodes, n)
		}
	}
	return ignoreNotFound(c.getWithRetry(ctx, c.run(r.User, r.ID), &r.Run))
}

// getWithRetry requests path, and retries when the rate limit refuses the request.
func (c *client) getWithRetry(ctx context.Context, path string, out any) error {
	return retry(ctx, restartTimeout, func() error { return c.do(ctx, http.MethodGet, path, nil, out) })
}

// ignoreNotFound returns nil for status 404.
func ignoreNotFound(err error) error {
	if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusNotFound {
		return nil
	}
	return err
}

// printJSON prints each item as a line of JSON.
func printJSON[T any](w io.Writer, list []T) error {
	enc := json.NewEncoder(w)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeTable writes runs as a table.
func writeTable(w io.Writer, runs []listedRun, now time.Time) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	several := slices.ContainsFunc(runs, func(r listedRun) bool { return r.User != runs[0].User }) // their runs may have equal ids
	heads := []string{"RUN", "STATUS", "AGENT", "THREAD", "AGE", "STEP", "LAST EVENT"}
	if several {
		heads = append([]string{"USER"}, heads...)
	}
	rows := [][]string{heads}
	for i := range runs {
		r := &runs[i]
		cells := []string{r.ID, string(r.Status), r.WorkflowID, r.ThreadID, age(now, &r.CreatedAt), r.step(), r.lastEvent(now)}
		if several {
			cells = append([]string{r.User}, cells...)
		}
		rows = append(rows, cells)
	}
	return printTable(w, rows)
}

// step describes the current nodes of a run, or its error.
func (r *listedRun) step() string {
	if r.Error != nil {
		return r.Error.Code
	}
	var parts []string
	for _, n := range r.Nodes {
		part := n.NodeID
		if n.Progress > 0 {
			part += fmt.Sprintf(" %.0f%%", 100*n.Progress)
		}
		if n.Status == "WAITING" {
			part += " waits"
		}
		parts = append(parts, part)
	}
	if r.Waiting != nil {
		parts = append(parts, waits(r.Waiting))
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// waits describes why a run does not begin or go on.
func waits(w *wire.Waiting) string {
	text := "waits: " + w.Reason
	if w.Behind != "" {
		text += " behind " + w.Behind
	}
	return text
}

// lastEvent describes the last event of a run and its age.
func (r *listedRun) lastEvent(now time.Time) string {
	if r.LastEvent == nil {
		return "-"
	}
	return fmt.Sprintf("%d %s, %s ago", r.LastEvent.ID, r.LastEvent.Type, age(now, r.LastEvent.Timestamp))
}

// age returns the time since at, with about two digits.
func age(now time.Time, at *time.Time) string {
	if at == nil {
		return "?"
	}
	switch d := max(now.Sub(*at), 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
