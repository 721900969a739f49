package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

func cancelCommand() *cobra.Command {
	var at target
	var user string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel RUN…",
		Short: "Cancel runs of a server",
		Long:  "Cancel ends runs for good: what they have written stays, and nothing of them follows.\n\n" + clientHelp,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := newClient(cmd, at)
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range ids {
				var done wire.Cancelled
				if err := c.do(cmd.Context(), http.MethodPost, c.run(user, id, "cancel"), nil, &done); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", id, err))
					continue
				}
				if asJSON {
					err = printJSON(cmd.OutOrStdout(), []wire.Cancelled{done})
				} else {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), printable(id), "is cancelled")
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	clientFlags(cmd, &at)
	whose(cmd, &user)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each")
	return cmd
}

func (p *Program) answerCommand() *cobra.Command {
	var at target
	var user string
	var said said
	cmd := &cobra.Command{
		Use:   "answer RUN",
		Short: "Answer what a run of a server asks",
		Long: "Answer shows what a run asks and takes the answers, a line each; with --approve, --refuse or --payload it asks\n" +
			"nobody and gives all questions of the run that answer. The run goes on by itself.\n\n" + clientHelp,
		Example: "  baton answer 0199c0de-… --approve\n  baton answer 0199c0de-… --payload '{\"size\": 3}'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			payload, err := said.payload()
			if err != nil {
				return err
			}
			c, err := newClient(cmd, at)
			if err != nil {
				return err
			}
			var run wire.Run
			if err := c.do(cmd.Context(), http.MethodGet, c.run(user, args[0]), nil, &run); err != nil {
				return err
			}
			if len(run.Interrupts) == 0 {
				return fmt.Errorf("%s asks nothing; it is %s", args[0], run.Status)
			}
			if payload == nil {
				s := &chat{out: newTranscript(p.Stdout), keys: newKeyboard(cmd.InOrStdin(), p.Stdout)}
				defer s.keys.close()
				return c.converse(cmd, s, &run)
			}
			entries := make([]agui.ResumeEntry, len(run.Interrupts))
			for i := range entries {
				entries[i] = agui.ResumeEntry{InterruptID: run.Interrupts[i].ID, Status: "resolved", Payload: payload}
			}
			return c.resume(cmd, &run, entries, said.json)
		},
	}
	clientFlags(cmd, &at)
	whose(cmd, &user)
	cmd.Flags().BoolVar(&said.approve, "approve", false, "approve all that it asks")
	cmd.Flags().BoolVar(&said.refuse, "refuse", false, "refuse all that it asks")
	cmd.Flags().StringVar(&said.text, "payload", "", "answer all that it asks with this `JSON`")
	cmd.Flags().BoolVar(&said.json, "json", false, "print the run as a line of JSON")
	return cmd
}

// said is an answer that stands on the command line.
type said struct {
	approve, refuse, json bool
	text                  string
}

// payload is the answer, nil when a person is to be asked.
func (s *said) payload() (json.RawMessage, error) {
	switch {
	case s.approve && s.refuse, (s.approve || s.refuse) && s.text != "":
		return nil, &usageError{errors.New("give one of --approve, --refuse and --payload")}
	case s.approve:
		return json.RawMessage(`{"approved":true}`), nil
	case s.refuse:
		return json.RawMessage(`{"approved":false}`), nil
	case s.text == "":
		return nil, nil
	case !json.Valid([]byte(s.text)):
		return nil, &usageError{errors.New("--payload is not JSON")}
	}
	return json.RawMessage(s.text), nil
}

// converse has a person answer all that a run asks.
func (c *client) converse(cmd *cobra.Command, s *chat, run *wire.Run) error {
	entries := make([]agui.ResumeEntry, 0, len(run.Interrupts))
	for i := range run.Interrupts {
		payload, err := s.question(cmd.Context(), &run.Interrupts[i])
		if err != nil {
			return err
		}
		entries = append(entries, agui.ResumeEntry{InterruptID: run.Interrupts[i].ID, Status: "resolved", Payload: payload})
	}
	return c.resume(cmd, run, entries, false)
}

// resume hands answers in.
func (c *client) resume(cmd *cobra.Command, run *wire.Run, entries []agui.ResumeEntry, asJSON bool) error {
	var now wire.Resumed
	if err := c.do(cmd.Context(), http.MethodPost, c.run(run.User, run.ID, "resume"), map[string]any{"resume": entries}, &now); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), []wire.Resumed{now})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is answered and goes on\n", printable(run.ID))
	return err
}
