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
	var server target
	var user string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel RUN…",
		Short: "Cancel runs on a server",
		Long:  "Cancel ends runs for good. Their events stay, and no more follow.\n\n" + clientHelp,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := newClient(cmd, server)
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
					_, err = fmt.Fprintln(cmd.OutOrStdout(), "cancelled", printable(id))
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	clientFlags(cmd, &server)
	addUserFlag(cmd, &user)
	cmd.ValidArgsFunction = completeRuns(&server, runsQuery{})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each result as a line of JSON")
	return cmd
}

func rerunCommand() *cobra.Command {
	var server target
	var user, from, call string
	cmd := &cobra.Command{
		Use:   "rerun RUN",
		Short: "Run a run again on a server, all of it or from a node",
		Long: "Rerun starts a run again on a new thread of yours and prints the new run's id. With --from it begins as the run was when\n" +
			"that node of its workflow began: what was completed then is not executed again. With --from-call it begins with that\n" +
			"model call, as baton runs show lists them: what its step had done before is not done again.\n\n" + clientHelp,
		Example: "  baton runs rerun r-17\n  baton watch $(baton runs rerun r-17 --from review)",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := newClient(cmd, server)
			if err != nil {
				return err
			}
			body := map[string]string{}
			if from != "" {
				body["fromNode"] = from
			}
			if call != "" {
				body["fromCall"] = call
			}
			var started wire.Started
			if err := c.do(cmd.Context(), http.MethodPost, c.run(user, ids[0], "rerun"), body, &started); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), printable(started.RunID))
			return err
		},
	}
	clientFlags(cmd, &server)
	addUserFlag(cmd, &user)
	cmd.ValidArgsFunction = completeRuns(&server, runsQuery{all: true})
	cmd.Flags().StringVar(&from, "from", "", "`node` of the run's workflow to begin from (default all of it)")
	cmd.Flags().StringVar(&call, "from-call", "", "`id` of the model call to begin from")
	cmd.MarkFlagsMutuallyExclusive("from", "from-call")
	return cmd
}

func (p *Program) answerCommand() *cobra.Command {
	var server target
	var user string
	var given givenAnswer
	cmd := &cobra.Command{
		Use:   "answer RUN",
		Short: "Answer the questions of a run on a server",
		Long: "Answer shows the questions of a waiting run and reads an answer to each. With --approve, --refuse or --payload\n" +
			"it gives every question that answer and reads none. The server validates the answers. The run then continues.\n\n" + clientHelp,
		Example: "  baton answer 0199c0de-… --approve\n  baton answer 0199c0de-… --payload '{\"size\": 3}'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			payload, err := given.payload()
			if err != nil {
				return err
			}
			c, err := newClient(cmd, server)
			if err != nil {
				return err
			}
			var run wire.Run
			if err := c.do(cmd.Context(), http.MethodGet, c.run(user, args[0]), nil, &run); err != nil {
				return err
			}
			if len(run.Interrupts) == 0 {
				return fmt.Errorf("%s has no open questions; it is %s", args[0], run.Status)
			}
			if payload == nil {
				s := &chat{out: newTranscript(p.Stdout), keys: newKeyboard(cmd.InOrStdin(), p.Stdout)}
				defer s.keys.close()
				return c.askPerson(cmd, s, &run)
			}
			entries := make([]agui.ResumeEntry, len(run.Interrupts))
			for i := range entries {
				entries[i] = agui.ResumeEntry{InterruptID: run.Interrupts[i].ID, Status: "resolved", Payload: payload}
			}
			err = c.sendAnswers(cmd, &run, entries, given.json)
			if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusBadRequest {
				for i, out := 0, newTranscript(p.Stderr); i < len(run.Interrupts); i++ { // what the answer must have
					out.question(&run.Interrupts[i])
				}
			}
			return err
		},
	}
	clientFlags(cmd, &server)
	addUserFlag(cmd, &user)
	cmd.ValidArgsFunction = completeRuns(&server, runsQuery{status: "WAITING"})
	cmd.Flags().BoolVar(&given.approve, "approve", false, "approve all questions")
	cmd.Flags().BoolVar(&given.refuse, "refuse", false, "refuse all questions")
	cmd.Flags().StringVar(&given.text, "payload", "", "answer all questions with this `JSON`")
	cmd.Flags().BoolVar(&given.json, "json", false, "print the run as a line of JSON")
	return cmd
}

// givenAnswer is an answer from the command line.
type givenAnswer struct {
	approve, refuse, json bool
	text                  string
}

// payload returns the answer, or nil if the user has to be asked.
func (g *givenAnswer) payload() (json.RawMessage, error) {
	switch {
	case g.approve && g.refuse, (g.approve || g.refuse) && g.text != "":
		return nil, &usageError{errors.New("use only one of --approve, --refuse and --payload")}
	case g.approve:
		return json.RawMessage(`{"approved":true}`), nil
	case g.refuse:
		return json.RawMessage(`{"approved":false}`), nil
	case g.text == "":
		return nil, nil
	case !json.Valid([]byte(g.text)):
		return nil, &usageError{errors.New("--payload is not JSON")}
	}
	return json.RawMessage(g.text), nil
}

// askPerson asks the user all questions of the run and sends the answers.
func (c *client) askPerson(cmd *cobra.Command, s *chat, run *wire.Run) error {
	for {
		entries, err := s.questions(cmd.Context(), run.Interrupts)
		if err != nil {
			return err
		}
		err = c.sendAnswers(cmd, run, entries, false)
		refused := (*refusedError)(nil)
		if !errors.As(err, &refused) || refused.status != http.StatusBadRequest {
			return err
		}
		s.out.line(err.Error(), red) // and ask again
	}
}

// sendAnswers resumes the run with the answers.
func (c *client) sendAnswers(cmd *cobra.Command, run *wire.Run, entries []agui.ResumeEntry, asJSON bool) error {
	var now wire.Resumed
	if err := c.do(cmd.Context(), http.MethodPost, c.run(run.User, run.ID, "resume"), map[string]any{"resume": entries}, &now); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), []wire.Resumed{now})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "answered; %s continues\n", printable(run.ID))
	return err
}
