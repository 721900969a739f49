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
)

func (p *Program) chatCommand() *cobra.Command {
	var server target
	var thread string
	cmd := &cobra.Command{
		Use:   "chat [AGENT]",
		Short: "Talk to an agent in the terminal",
		Long: "Chat sends each line to an agent and shows what it does: on the server that has the database, or on the one\n" +
			"given with --server; without any, on one that this process starts. It asks for approvals and answers.\n" +
			"Without AGENT it talks to the thread's agent, to the one named assistant, or to the only one there is.\n\n" +
			"Ctrl-C cancels the turn, twice leaves; /new begins a new thread, /quit leaves. Lines that are pasted are one\n" +
			"message. From a pipe each line is a turn, or the answer to a question, and the exit code is 1 when the last\n" +
			"turn has failed.",
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
	config.Flags(cmd.Flags())
	server.flags(cmd, "to talk to")
	cmd.Flags().StringVar(&thread, "thread", "", "`thread` to go on with (default a new one)")
	return cmd
}

func (p *Program) chat(ctx context.Context, cfg config.Config, server target, s *chat) (err error) {
	defer s.keys.close()
	url, err := findServer(ctx, cfg, server.url)
	if err != nil {
		return err
	}
	server.client = ownClient(&cfg)
	if s.server = server.at(url); url == "" {
		o, err := p.offers(cfg, offers{})
		if err != nil {
			return err
		}
		cfg.Listen = "127.0.0.1:0" // for itself
		own, err := Start(ctx, cfg, aside(cfg.Log, p.Stderr), o.list...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.Close()) }()
		s.server.url = own.URL()
	}
	err = s.talk(ctx)
	s.goodbye()
	if errors.Is(err, errLeft) || errors.Is(err, io.EOF) && (s.keys.terminal || !s.failed) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return exitCode(exitFailure)
	}
	return err
}

// chat is a conversation with an agent of a server.
type chat struct {
	server target
	agent  string // empty for the thread's
	thread string
	out    *transcript
	keys   *keyboard
	said   bool // there is something in the thread
	failed bool // the last turn
}

// errLeft says that the person has left.
var errLeft = errors.New("left")

// talk makes a turn of each line until there is none.
func (s *chat) talk(ctx context.Context) error {
	if err := retry(ctx, neverThere, func() error { return s.server.settle(ctx) }); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	s.greet()
	if s.said {
		if err := s.resume(ctx); err != nil {
			return err
		}
	}
	for pressed := false; ; {
		line, err := s.keys.message(ctx, s.prompt())
		if errors.Is(err, errPressed) && !pressed {
			pressed = true
			s.out.line("Ctrl-C again leaves", dim)
			continue
		}
		if errors.Is(err, errPressed) {
			return errLeft
		}
		if err != nil {
			return err
		}
		pressed = false
		switch line = strings.TrimSpace(line); {
		case line == "":
		case line == "/quit" || line == "/exit":
			return errLeft
		case line == "/new":
			s.thread, s.said = uuid.NewString(), false
			s.out.line("a new thread: "+s.thread, dim)
		case isCommand(line):
			s.out.line("there are /new and /quit; Ctrl-C cancels a turn", dim)
		default:
			if err := s.turn(ctx, line); err != nil {
				return err
			}
		}
	}
}

func (s *chat) prompt() string {
	return s.out.styled(printable(s.agent)+">", bold) + " "
}

// greet tells a person whom they talk to, and how to stop.
func (s *chat) greet() {
	who := s.agent
	if who == "" {
		who = "the workflow of the thread"
	}
	if s.keys.terminal {
		s.out.line("talking to "+who+"; Ctrl-C cancels a turn, /quit leaves", dim)
	}
}

// goodbye tells a person how to go on.
func (s *chat) goodbye() {
	if s.keys.terminal && s.said {
		s.out.line("to go on: baton chat --thread "+s.thread, dim)
	}
}

// open takes up the thread: it shows its last messages.
func (s *chat) open(ctx context.Context) error {
	if s.thread == "" {
		s.thread = uuid.NewString()
		return s.choose(ctx)
	}
	err := s.history(ctx)
	if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusNotFound {
		s.out.line("a new thread: "+s.thread, dim)
		return s.choose(ctx)
	}
	if err != nil {
		return err
	}
	s.said = true
	s.out.line("thread "+s.thread, dim)
	return s.whose(ctx)
}

// choose picks the agent of a new thread.
func (s *chat) choose(ctx context.Context) error {
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
			"where the server runs, or declare agents of your own: baton init", strings.Join(names, ", "))}
	}
	return nil
}

// shownMessages are those of a thread that is taken up.
const shownMessages = 20

func (s *chat) history(ctx context.Context) error {
	var found struct{ Messages []agui.Message }
	if err := s.get(ctx, "/api/v1/threads/"+url.PathEscape(s.thread)+"/messages", &found); err != nil {
		return err
	}
	msgs := slices.DeleteFunc(found.Messages, func(m agui.Message) bool {
		return m.Content == "" || m.Role != agui.RoleUser && m.Role != agui.RoleAssistant
	})
	for _, m := range msgs[max(len(msgs)-shownMessages, 0):] {
		style := ""
		if m.Role == agui.RoleUser {
			style = dim
			m.Content = "> " + m.Content
		}
		s.out.line(m.Content, style)
	}
	return s.out.err
}

// whose picks the agent that the thread had last. A workflow's thread has none.
func (s *chat) whose(ctx context.Context) error {
	var found struct{ Items []struct{ Agent string } }
	path := s.server.runs() + "?limit=1&threadId=" + url.QueryEscape(s.thread)
	if err := s.get(ctx, path, &found); err != nil || s.agent != "" || len(found.Items) == 0 {
		return err
	}
	s.agent = found.Items[0].Agent
	return nil
}

// resume goes on with the run that waits for an answer in the thread, if there is one.
func (s *chat) resume(ctx context.Context) error {
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
	r := newRemote(s.server.http(), s.server)
	r.threadID, r.runID = s.thread, run.RunID
	r.path = "/api/v1/agent/runs/" + url.PathEscape(s.thread) + "/events?after_event_id=latest"
	answered, err := s.answer(ctx, r, run.Interrupts)
	if err != nil || !answered {
		return err
	}
	return s.follow(ctx, r)
}

// turn says something to the agent and shows what becomes of it.
func (s *chat) turn(ctx context.Context, text string) error {
	f, err := startRemote(ctx, s.server, request{name: s.agent, text: text, thread: s.thread})
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		s.failed = true
		s.out.line(err.Error(), red)
		return s.out.err
	}
	if err != nil {
		return err
	}
	s.said = true
	return s.follow(ctx, f.(*remote))
}

// follow shows a run until it has ended, and asks what it asks.
func (s *chat) follow(ctx context.Context, r *remote) error {
	for {
		o, err := s.watch(ctx, r)
		if err != nil {
			return err
		}
		asks, waits := o.asks()
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

// watch shows the run until its span ends. Ctrl-C cancels it, a second one leaves.
func (s *chat) watch(ctx context.Context, r *remote) (outcome, error) {
	stop, now, release := s.keys.turn(ctx)
	defer release()
	o, err := follow(stop, now, r, turnView{s.out})
	err = errors.Join(err, r.close(now))
	if now.Err() != nil || ctx.Err() != nil {
		return o, errLeft
	}
	return o, err
}

// get reads an answer of the server.
func (s *chat) get(ctx context.Context, path string, out any) error {
	return retry(ctx, neverThere, func() error {
		req, err := s.server.request(ctx, http.MethodGet, path, http.NoBody)
		if err != nil {
			return err
		}
		res, err := s.server.http().Do(req)
		if err != nil {
			return &awayError{err: err}
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode >= 300 {
			return statusError(res)
		}
		return json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out)
	})
}

// turnView shows a run as a part of a conversation.
type turnView struct{ *transcript }

func (v turnView) show(ev event) error {
	if e, ok := ev.Event.(agui.StepStarted); ok && e.StepName == e.Agent { // it is who the person talks to
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
