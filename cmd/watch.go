package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/transports/wire"
)

func watchCommand() *cobra.Command {
	var server target
	var user, output string
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Show the events of a run on a server, from its start until its end",
		Long: "Watch shows the stored events of a run and follows it until it ends, also while it waits for an answer. The\n" +
			"output and the exit code are those of baton run. Ctrl-C stops watching; the run continues.\n\n" + clientHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := newView(cmd.OutOrStdout(), output)
			if err != nil {
				return err
			}
			c, err := newClient(cmd, server)
			if err != nil {
				return err
			}
			stop, _, release := interrupts(cmd.Context())
			defer release()
			err = c.watch(stop, user, args[0], v)
			if stop.Err() != nil && errors.Is(err, context.Canceled) {
				return exitCode(exitInterrupted)
			}
			return err
		},
	}
	clientFlags(cmd, &server)
	addUserFlag(cmd, &user)
	addOutputFlag(cmd, &output)
	cmd.ValidArgsFunction = completeRuns(&server, runsQuery{all: true})
	return cmd
}

// watch shows a run until it has ended. It returns its exit code as an error.
func (c *client) watch(ctx context.Context, user, id string, v view) error {
	run, first, err := c.log(ctx, user, id, 1)
	if err != nil {
		return err
	}
	r := newRemote(c.http(), c.target)
	r.threadID, r.runID = run.ThreadID, run.ID
	r.path = "/api/v1/agent/runs/" + url.PathEscape(run.ConversationID) + "/events"
	if len(first.Data) > 0 && first.Data[0].EventID != nil {
		r.after = *first.Data[0].EventID - 1 // the thread's earlier events are those of other runs
	}
	defer func() { _ = r.close(ctx) }()
	for o := (outcome{thread: run.ThreadID, run: run.ID}); ; {
		ev, err := r.next(ctx)
		if errors.Is(err, io.EOF) {
			if err := v.end(o); err != nil {
				return err
			}
			if _, waits := o.interrupts(); !waits {
				return o.exit(false)
			}
			r.over, r.path = false, "/api/v1/agent/runs/"+url.PathEscape(run.ConversationID)+"/events?follow=true"
			o.last = nil
			continue
		}
		if err != nil {
			return err
		}
		o.add(ev)
		if err := v.show(ev); err != nil {
			return err
		}
	}
}

// log returns a run and the first page of its log.
func (c *client) log(ctx context.Context, user, id string, limit int) (run wire.Run, page wire.EventPage, err error) {
	if err = c.getWithRetry(ctx, c.run(user, id), &run); err == nil {
		page, err = c.events(ctx, &run, "0", limit)
	}
	return run, page, err
}

// events returns a page of a run's log.
func (c *client) events(ctx context.Context, run *wire.Run, after string, limit int) (page wire.EventPage, err error) {
	query := url.Values{"projection": {"seed"}, "after_event_id": {after}, "limit": {strconv.Itoa(limit)}}
	path := fmt.Sprintf("/api/v1/conversations/%s/agent-runs/%s/events?%s", url.PathEscape(run.ConversationID), url.PathEscape(run.ID), query.Encode())
	err = c.getWithRetry(ctx, path, &page)
	return page, err
}

func exportCommand() *cobra.Command {
	var server target
	var user string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Print a run and its log as one JSON document",
		Long: "Export prints {\"run\": …, \"events\": [{\"event_id\": 1, \"event\": {…}}, …]}: the run as the API shows it, and the\n" +
			"events that it has stored so far.\n\n" + clientHelp,
		Example: "  baton runs export 0199c0de-… > run.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newClient(cmd, server)
			if err != nil {
				return err
			}
			return c.export(cmd.Context(), cmd.OutOrStdout(), user, args[0])
		},
	}
	clientFlags(cmd, &server)
	addUserFlag(cmd, &user)
	cmd.ValidArgsFunction = completeRuns(&server, runsQuery{all: true})
	return cmd
}

// export writes a run and its log, page by page.
func (c *client) export(ctx context.Context, w io.Writer, user, id string) error {
	run, page, err := c.log(ctx, user, id, wire.MaxLimit)
	if err != nil {
		return err
	}
	head, err := json.Marshal(&run)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "{\"run\":%s,\n\"events\":[", head)
	for separator := "\n"; err == nil; {
		for i := range page.Data {
			line, _ := json.Marshal(&page.Data[i]) // was decoded before
			if _, err = fmt.Fprintf(w, "%s%s", separator, line); err != nil {
				return err
			}
			separator = ",\n"
		}
		if page.PageInfo.Next == nil {
			_, err = fmt.Fprintln(w, "]}")
			return err
		}
		page, err = c.events(ctx, &run, *page.PageInfo.Next, wire.MaxLimit)
	}
	return err
}
