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
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/transports/wire"
)

func runsCommand() *cobra.Command {
	var at target
	var q runsQuery
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs of a server, to find one that is stuck",
		Long: "Runs lists the runs that are open, the oldest first: since when, at which step, and what they have made last. A run\n" +
			"that is stuck is old and has made nothing for long. With --all those that are over are listed too, the newest\n" +
			"first.\n\n" + clientHelp,
		Example: "  baton runs\n  baton runs --all --status FAILED --since 1h --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(cmd, at)
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
			return table(cmd.OutOrStdout(), runs, time.Now())
		},
	}
	clientFlags(cmd, &at)
	cmd.Flags().BoolVar(&q.all, "all", false, "also those that are over")
	cmd.Flags().StringVar(&q.status, "status", "", "only those with this `status`: QUEUED, RUNNING, WAITING, COMPLETED, FAILED or CANCELLED")
	cmd.Flags().StringVar(&q.agent, "agent", "", "only those of this `agent`")
	cmd.Flags().StringVar(&q.thread, "thread", "", "only those of this `thread`")
	cmd.Flags().DurationVar(&q.since, "since", 0, "only those that are younger than this, such as 1h")
	cmd.Flags().IntVar(&q.limit, "limit", 50, "how many at most, up to 500")
	cmd.Flags().BoolVar(&q.json, "json", false, "print a line of JSON for each")
	return cmd
}

// runsQuery says which runs are listed.
type runsQuery struct {
	all, json             bool
	status, agent, thread string
	since                 time.Duration
	limit                 int
}

// listed is a run with where it is.
type listed struct {
	wire.Run
	Nodes []wire.Node `json:"currentNodes"` // those that are at work, wait or have failed
}

// list asks for the runs, and of each that is open where it is.
func (c *client) list(ctx context.Context, q *runsQuery) ([]listed, error) {
	statuses := []string{strings.ToUpper(q.status)}
	if q.status == "" && !q.all {
		statuses = []string{"RUNNING", "WAITING", "QUEUED"}
	}
	all := []listed{}
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
			all = append(all, listed{Run: page.Items[i]})
		}
	}
	if len(statuses) > 1 {
		slices.SortStableFunc(all, func(a, b listed) int { return a.CreatedAt.Compare(b.CreatedAt) })
	}
	all = all[:min(len(all), q.limit)]
	for i := range all {
		if err := c.locate(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// locate asks where a run is that is not over. One that is gone by now stays as it was.
func (c *client) locate(ctx context.Context, r *listed) error {
	r.Nodes = []wire.Node{}
	if r.Status.Final() {
		return nil
	}
	var nodes wire.Items[wire.Node]
	if err := c.ask(ctx, c.run(r.User, r.ID, "node-states"), &nodes); err != nil {
		return unlessGone(err)
	}
	for _, n := range nodes.Items {
		if n.Status == "RUNNING" || n.Status == "WAITING" {
			r.Nodes = append(r.Nodes, n)
		}
	}
	return unlessGone(c.ask(ctx, c.run(r.User, r.ID), &r.Run))
}

// ask gets what is at path, and waits when so many requests are too many.
func (c *client) ask(ctx context.Context, path string, out any) error {
	return retry(ctx, restarting, func() error { return c.do(ctx, http.MethodGet, path, nil, out) })
}

// unlessGone is an error, or none where it says that something is not there.
func unlessGone(err error) error {
	if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusNotFound {
		return nil
	}
	return err
}

// printJSON prints each run on a line.
func printJSON[T any](w io.Writer, list []T) error {
	enc := json.NewEncoder(w)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// table prints runs for a person.
func table(w io.Writer, runs []listed, now time.Time) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "there are no such runs")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	several := slices.ContainsFunc(runs, func(r listed) bool { return r.User != runs[0].User }) // who may have runs of one name
	heads := []string{"RUN", "STATUS", "AGENT", "THREAD", "AGE", "STEP", "LAST EVENT"}
	if several {
		heads = append([]string{"USER"}, heads...)
	}
	fmt.Fprintln(t, strings.Join(heads, "\t"))
	for i := range runs {
		r := &runs[i]
		cells := []string{r.ID, string(r.Status), r.WorkflowID, r.ThreadID, age(now, &r.CreatedAt), r.step(), r.last(now)}
		if several {
			cells = append([]string{r.User}, cells...)
		}
		for j, cell := range cells {
			cells[j] = strings.NewReplacer("\t", " ", "\n", " ").Replace(printable(cell))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// step is where a run is: its nodes at work, what it asks, or why it has failed.
func (r *listed) step() string {
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
			part += " asks"
		}
		parts = append(parts, part)
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// last is what a run has made last, and how long ago.
func (r *listed) last(now time.Time) string {
	if r.LastEvent == nil {
		return "-"
	}
	return fmt.Sprintf("%d %s, %s ago", r.LastEvent.ID, r.LastEvent.Type, age(now, r.LastEvent.Timestamp))
}

// age is how long ago a time was, in about two digits.
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
