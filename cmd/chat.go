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
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

func (p *Program) chatCommand() *cobra.Command {
	var server target
	var thread string
	cmd := &cobra.Command{
		Use:   "chat [NAME]",
		Short: "Talk to an agent or a workflow in the terminal",
		Long: "Chat sends each line to an agent or a workflow and shows its answer and tool calls. It uses the\n" +
			"server given with --server, or the server that runs on the database, or starts one in this process. It asks you\n" +
			"for approvals and answers. Without NAME it uses the thread's agent, the agent named assistant, or the only agent.\n\n" +
			"Ctrl-C cancels the turn, a second Ctrl-C quits; /new starts a new thread, /quit quits. Pasted lines are one\n" +
			"message. From a pipe, each line is a message or the answer to a question, and the exit code is 1 if the last\n" +
			"turn failed.",
		Example: "  baton chat\n  baton chat researcher --thread trip",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			s := &chat{thread: thread, out: newTranscript(p.Stdout), keys: newKeyboard(cmd.InOrStdin(), p.Stdout)}
			if len(args) == 1 {
				s.agent = args[0]
			}
			return p.chat(cmd.Context(), cfg, server, s)
		},
	}
	config.Flags(cmd.Flags(), append(serverFlags, logFlags...)...)
	server.flags(cmd, "to talk to")
	cmd.ValidArgsFunction = p.completeNames(&server)
	cmd.Flags().StringVar(&thread, "thread", "", "`thread` to continue (default a new one)")
	return cmd
}

func (p *Program) chat(ctx context.Context, cfg config.Config, server target, s *chat) (err error) {
	defer s.keys.close()
	url, err := findServer(ctx, cfg, server.url)
	if err != nil {
		return err
	}
	server.client = serverClient(&cfg)
	if s.server = server.at(url); url == "" {
		o, err := p.offers(cfg, offers{})
		if err != nil {
			return err
		}
		cfg.Listen, cfg.Insecure = "127.0.0.1:0", false // only this command connects to it
		set, err := o.opened(ctx, cfg, quietLogger(cfg.Log, p.Stderr))
		if err != nil {
			return err
		}
		own, err := start(ctx, set)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.Close()) }()
		s.server.url = own.URL()
	}
	err = s.talk(ctx)
	s.goodbye()
	if errors.Is(err, errQuit) || errors.Is(err, io.EOF) && (s.keys.terminal || !s.failed) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return exitCode(exitFailure)
	}
	return err
}

// chat is a conversation with an agent on a server.
type chat struct {
	server      target
	agent       string // or workflow
	thread      string
	out         *transcript
	keys        *keyboard
	hasMessages bool // the thread has messages
	failed      bool // the last turn failed
}

// errQuit means that the user has quit.
var errQuit = errors.New("quit")

// talk sends each line to the agent until the user quits.
func (s *chat) talk(ctx context.Context) error {
	if err := retry(ctx, connectTimeout, func() error { return s.server.resolveProject(ctx) }); err != nil {
		return err
	}
	if err := s.openThread(ctx); err != nil {
		return err
	}
	s.greet()
	if s.hasMessages {
		if err := s.resumeWaiting(ctx); err != nil {
			return err
		}
	}
	for pressed := false; ; {
		line, err := s.keys.message(ctx, s.prompt())
		if errors.Is(err, errCtrlC) && !pressed {
			pressed = true
			s.out.line("press Ctrl-C again to quit", dim)
			continue
		}
		if errors.Is(err, errCtrlC) {
			return errQuit
		}
		if err != nil {
			return err
		}
		pressed = false
		switch line = strings.TrimSpace(line); {
		case line == "":
		case line == "/quit" || line == "/exit":
			return errQuit
		case line == "/new":
			s.thread, s.hasMessages = uuid.NewString(), false
			s.out.line("new thread: "+s.thread, dim)
		case isCommand(line):
			s.out.line("commands: /new, /quit; Ctrl-C cancels a turn", dim)
		default:
			if err := s.sendMessage(ctx, line); err != nil {
				return err
			}
		}
	}
}

func (s *chat) prompt() string {
	return s.out.styled(printable(s.agent)+">", bold) + " "
}

// greet prints the agent's name and the keys, on a terminal.
func (s *chat) greet() {
	if s.keys.terminal {
		s.out.line("talking to "+s.agent+"; Ctrl-C cancels a turn, /quit quits", dim)
	}
}

// goodbye prints the command that continues the thread, on a terminal.
func (s *chat) goodbye() {
	if s.keys.terminal && s.hasMessages {
		s.out.line("to continue: baton chat --thread "+s.thread, dim)
	}
}

// openThread shows the last messages of the thread, or creates a new thread.
func (s *chat) openThread(ctx context.Context) error {
	if s.thread == "" {
		s.thread = uuid.NewString()
		return s.chooseAgent(ctx)
	}
	err := s.showHistory(ctx)
	if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusNotFound {
		s.out.line("new thread: "+s.thread, dim)
		return s.chooseAgent(ctx)
	}
	if err != nil {
		return err
	}
	s.hasMessages = true
	s.out.line("thread "+s.thread, dim)
	return s.pickAgent(ctx)
}

// chooseAgent picks the agent of a new thread.
func (s *chat) chooseAgent(ctx context.Context) error {
	if s.agent != "" {
		return nil
	}
	var offered struct{ Agents []struct{ Name string } }
	if err := s.get(ctx, "/api/v1/agents", &offered); err != nil {
		return err
	}
	var names []string
	for _, a := range offered.Agents {
		names = append(names, a.Name)
	}
	own := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "echo" || n == "scripted" })
	switch {
	case slices.Contains(names, assistant):
		s.agent = assistant
	case len(own) == 1:
		s.agent = own[0]
	default:
		return &usageError{fmt.Errorf("name an agent: %s\nfor the agent assistant set OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY or OLLAMA_HOST "+
			"in the server's environment, or declare your own agents: baton init", strings.Join(names, ", "))}
	}
	return nil
}

// shownMessages is the number of earlier messages that are shown when a thread continues.
const shownMessages = 20

func (s *chat) showHistory(ctx context.Context) error {
	var found struct{ Messages []agui.Message }
	if err := s.get(ctx, "/api/v1/threads/"+url.PathEscape(s.thread)+"/messages", &found); err != nil {
		return err
	}
	msgs := slices.DeleteFunc(found.Messages, func(m agui.Message) bool {
		return m.Content == "" || m.Role != agui.RoleUser && m.Role != agui.RoleAssistant
	})
	for _, m := range msgs[max(len(msgs)-shownMessages, 0):] {
		if m.Role == agui.RoleUser {
			s.out.line("> "+m.Content, dim)
			continue
		}
		s.out.write(s.out.rendered(m.Content), "")
		s.out.close()
	}
	return s.out.err
}

// pickAgent picks the agent or workflow of the thread's last run.
func (s *chat) pickAgent(ctx context.Context) error {
	var found wire.Page[wire.Run]
	path := s.server.runs() + "?limit=1&threadId=" + url.QueryEscape(s.thread)
	if err := s.get(ctx, path, &found); err != nil || s.agent != "" || len(found.Items) == 0 {
		return err
	}
	s.agent = found.Items[0].WorkflowID
	return nil
}

// resumeWaiting asks for the answers that a run of the thread waits for, if there is such a run, and follows it.
func (s *chat) resumeWaiting(ctx context.Context) error {
	var found struct {
		Items []struct {
			RunID      string `json:"id"`
			Interrupts []agui.Interrupt
		}
	}
	path := s.server.runs() + "?status=WAITING&threadId=" + url.QueryEscape(s.thread)
	if err := s.get(ctx, path, &found); err != nil || len(found.Items) == 0 || len(found.Items[0].Interrupts) == 0 {
		return err
	}
	run := found.Items[0]
	var whole wire.Run
	if err := s.get(ctx, s.server.runs()+"/"+run.RunID, &whole); err != nil {
		return err
	}
	r := newRemote(s.server.http(), s.server)
	r.threadID, r.runID = s.thread, run.RunID
	r.path = "/api/v1/agent/runs/" + url.PathEscape(s.thread) + "/events"
	if whole.LastEvent != nil { // before the answer: the run may end at once
		r.after = whole.LastEvent.ID
	}
	answered, err := s.answer(ctx, r, run.Interrupts)
	if err != nil || !answered {
		return err
	}
	return s.followRun(ctx, r)
}

// sendMessage starts a run with the message and follows it.
func (s *chat) sendMessage(ctx context.Context, text string) error {
	r, err := startRemote(ctx, s.server, request{name: s.agent, text: text, thread: s.thread})
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		s.failed = true
		s.out.line(err.Error(), red)
		return s.out.err
	}
	if err != nil {
		return err
	}
	s.hasMessages = true
	return s.followRun(ctx, r)
}

// followRun shows a run until it has ended, and asks the user the run's questions.
func (s *chat) followRun(ctx context.Context, r *remote) error {
	for {
		o, err := s.watch(ctx, r)
		if err != nil {
			return err
		}
		asks, waits := o.interrupts()
		_, s.failed = o.failure()
		if !waits {
			return s.out.err
		}
		answered, err := s.answer(ctx, r, asks)
		if err != nil || !answered {
			return err
		}
	}
}

// watch shows the run until its span ends. Ctrl-C cancels the run, a second Ctrl-C quits.
func (s *chat) watch(ctx context.Context, r *remote) (outcome, error) {
	stop, now, release := s.keys.turnContexts(ctx)
	defer release()
	o, err := follow(stop, now, r, turnView{s.out})
	err = errors.Join(err, r.close(now))
	if now.Err() != nil || ctx.Err() != nil {
		return o, errQuit
	}
	return o, err
}

// get requests path and decodes the answer into out. It retries while the server is unavailable.
func (s *chat) get(ctx context.Context, path string, out any) error {
	return retry(ctx, connectTimeout, func() error {
		req, err := s.server.request(ctx, http.MethodGet, path, http.NoBody)
		if err != nil {
			return err
		}
		res, err := s.server.http().Do(req)
		if err != nil {
			return &unavailableError{err: err}
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode >= 300 {
			return statusError(res)
		}
		return json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out)
	})
}

// turnView shows a run as part of a conversation.
type turnView struct{ *transcript }

func (v turnView) show(ev event) error {
	if e, ok := ev.Event.(agui.StepStarted); ok && e.StepName == e.Agent { // the prompt already names the agent
		return v.err
	}
	return v.transcript.show(ev)
}

func (v turnView) end(o outcome) error {
	v.close()
	clear(v.calls)
	if e, failed := o.failure(); failed && e.Code == codeCancelled {
		v.line("cancelled", red)
	} else if failed {
		v.line(fmt.Sprintf("failed: %s (%s)", e.Message, e.Code), red)
	}
	return v.err
}
