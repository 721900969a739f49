package process_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/process"
)

const hello = `read a; echo '{"jsonrpc":"2.0","id":1,"result":{"protocol":1,"agent":{}}}'; `

// shell returns an agent that is a shell script.
func shell(t *testing.T, script string, log *slog.Logger) *process.Agent {
	t.Helper()
	return shellWithin(t, 50*time.Millisecond, script, log)
}

// shellWithin is shell for a program that has so long to end by itself.
func shellWithin(t *testing.T, stop time.Duration, script string, log *slog.Logger) *process.Agent {
	t.Helper()
	a, err := process.NewAgent(process.Config{
		Info: plugins.Info{Name: "sh"}, Command: []string{"/bin/sh", "-c", script}, Stop: stop, Log: log,
		Start: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

// settled starts an agent and waits for the outcome.
func settled(t *testing.T, a *process.Agent) *process.Agent {
	t.Helper()
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-a.Settled()
	return a
}

func TestStart_Errors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ script, want string }{
		{"exit 3", "exit status 3"},
		{"echo KEY is not set >&2; exit 3", "exit status 3; it said: KEY is not set"},
		{"no-such-program-here", "exit status 127"},
		{`read a; echo '{"jsonrpc":"2.0","id":1,"result":{"protocol":2}}'; cat`, "version 2 of the protocol, Baton version 1"},
		{`read a; echo '{"jsonrpc":"2.0","id":1,"result":{"protocol":1,"tools":[]}}'; cat`, "no agent"},
		{`read a; echo '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no key is set"}}'; cat`, "no key is set"},
		{`read a; echo '{"jsonrpc":"2.0","id":1,"result":7}'; cat`, "cannot unmarshal number"},
	} {
		a := settled(t, shell(t, test.script, nil))
		if h := a.Health(); h == nil || h.OK || !strings.Contains(h.Detail, test.want) {
			t.Errorf("%s\n%+v", test.script, h)
		}
		err := plugintest.Run(t, a, plugintest.Config{}).Err
		shown, ok := errors.AsType[*plugins.Error](err)
		if !ok || shown.Code != "agent_unavailable" || !shown.Retryable || !strings.Contains(shown.Message, test.want) {
			t.Errorf("%s\na run: %v", test.script, err)
		}
	}
	a, err := process.NewAgent(process.Config{
		Info: plugins.Info{Name: "sh"}, Command: []string{"/bin/sh", "-c", "cat >/dev/null"}, Start: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(t.Context())
	if h := settled(t, a).Health(); h == nil || h.OK || !strings.Contains(h.Detail, "has not answered within 1ms") {
		t.Errorf("its health does not show that it cannot be started: %+v", h)
	}
}

func TestStart_FailureEndsProgram(t *testing.T) {
	t.Parallel()
	var out buffer
	a := shellWithin(t, time.Minute, `read a; echo '{"jsonrpc":"2.0","id":1,"result":{"protocol":1}}'; cat >/dev/null; echo gone >&2`, slog.New(slog.NewTextHandler(&out, nil)))
	if h := settled(t, a).Health(); h == nil || h.OK {
		t.Fatal("a program without an agent was started")
	}
	if log := out.String(); !strings.Contains(log, "gone") {
		t.Errorf("the program goes on: %s", log)
	}
}

// Close ends a program that has not answered yet.
func TestClose_EndsStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := buffer{told: cancel} // called at the program's first output
	a := shellWithin(t, time.Minute, `echo born >&2; cat >/dev/null; echo gone >&2`, slog.New(slog.NewTextHandler(&out, nil)))
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-a.Settled()
	if log := out.String(); !strings.Contains(log, "gone") {
		t.Errorf("the program goes on: %s", log)
	}
}

func TestProtocol_InvalidLineIsLogged(t *testing.T) {
	t.Parallel()
	var out buffer
	a := shell(t, `echo loading; `+hello+`read b; echo '[1]'; echo '{"jsonrpc":"2.0","id":2,"result":"fine"}'; cat >/dev/null`,
		slog.New(slog.NewTextHandler(&out, nil)))
	res := plugintest.Run(t, a, plugintest.Config{})
	if res.Err != nil || res.Text() != "fine" {
		t.Errorf("%q, %v", res.Text(), res.Err)
	}
	if log := out.String(); !strings.Contains(log, "line=loading") || !strings.Contains(log, "line=[1]") {
		t.Error(log)
	}
}

func TestProtocol_MistakesFailRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ says, want string }{
		"an unknown notification": {`{"method":"shout","params":{"run":2}}`, "needs an id"},
		"params that are no text": {`{"method":"text","params":{"run":2,"delta":7}}`, "cannot unmarshal number"},
		"an illegal event":        {`{"method":"emit","params":{"run":2,"event":{"type":"TEXT_MESSAGE_END","messageId":"x"}}}`, "emit: "},
		"no event":                {`{"method":"emit","params":{"run":2,"event":7}}`, "event: "},
		"a result of no kind":     {`{"id":2,"result":[1]}`, "answer to run"},
		"its end":                 {``, "program has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			script := hello + `read b; echo '` + strings.Replace(test.says, "{", `{"jsonrpc":"2.0",`, 1) + `'; `
			if test.says != "" {
				script += "cat >/dev/null"
			}
			res, _ := plugintest.Execute(t.Context(), shell(t, script, nil), plugintest.Config{})
			if res.Err == nil || !strings.Contains(res.Err.Error(), test.want) {
				t.Error(res.Err)
			}
		})
	}
}

// After an invalid message fails a run, Baton sends the program a cancel and waits for the response, as for any cancelled
// run.
func TestProtocol_MistakeCancelsRun(t *testing.T) {
	t.Parallel()
	flood := `line='{"jsonrpc":"2.0","method":"text","params":{"run":2,"delta":"'$(head -c 1000000 /dev/zero | tr '\0' x)'"}}'; for i in $(seq 20); do echo "$line"; done; `
	for name, says := range map[string]string{
		"a notification that fails": `echo '{"jsonrpc":"2.0","method":"text","params":{"run":2,"delta":7}}'; `,
		"an overrun":                flood,
	} {
		t.Run(name, func(t *testing.T) {
			told, gate := make(chan struct{}), make(chan struct{})
			var once sync.Once
			var out buffer
			out.told = func() {
				if strings.Contains(out.buf.String(), "cancelled") {
					once.Do(func() { close(told) })
				}
			}
			mark := t.TempDir() + "/mark"
			a := shell(t, hello+`read b; `+says+`touch `+mark+`; read c; echo "$c" >&2; cat >/dev/null`, slog.New(slog.NewJSONHandler(&out, nil)))
			host := &watcher{saw: func(string) { <-gate }}
			var watching sync.WaitGroup
			defer watching.Wait()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			watching.Go(func() { // ends when the program has written everything, which cannot be handled before
				defer close(gate)
				for ctx.Err() == nil {
					if _, err := os.Stat(mark); err == nil {
						return
					}
					<-time.After(10 * time.Millisecond)
				}
			})
			if _, err := plugins.Execute(t.Context(), a, host, plugins.Input{}); err == nil {
				t.Error("the run did not fail")
			}
			select {
			case <-told:
			case <-time.After(10 * time.Minute):
				t.Errorf("the program was told %s", out.String())
			}
		})
	}
}

func TestProtocol_InvalidRequestsGetErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ asks, want string }{
		"an unknown method":      {`{"id":"a","method":"shout","params":{"run":2}}`, `"code":-32601`},
		"an unknown scope":       {`{"id":"a","method":"next","params":{"run":2,"in":"s9"}}`, `there is no scope`},
		"an unknown run":         {`{"id":"a","method":"next","params":{"run":9}}`, `"code":"ended"`},
		"no run":                 {`{"id":"a","method":"next","params":{}}`, `names the run`},
		"no params":              {`{"id":"a","method":"next"}`, `names the run`},
		"a Do that is not there": {`{"id":"a","method":"done","params":{"run":2,"scope":""}}`, `there is no Do`},
		"arguments of no object": {`{"id":"a","method":"tools","params":{"run":2,"calls":7}}`, `"code":-32602`},
	} {
		t.Run(name, func(t *testing.T) {
			script := hello + `read b; echo '` + strings.Replace(test.asks, "{", `{"jsonrpc":"2.0",`, 1) + `'; read c; echo "$c" >&2; ` +
				`echo '{"jsonrpc":"2.0","id":2,"result":null}'; cat >/dev/null`
			var out buffer
			a := shell(t, script, slog.New(slog.NewJSONHandler(&out, nil)))
			if res := plugintest.Run(t, a, plugintest.Config{}); res.Err != nil {
				t.Fatal(res.Err)
			}
			_ = a.Close(t.Context())
			if got := strings.ReplaceAll(out.String(), `\"`, `"`); !strings.Contains(got, test.want) {
				t.Errorf("answer: %s", got)
			}
		})
	}
}

// A line that is no message ends the request to which it belongs with a reason, and nothing else.
func TestProtocol_InvalidLineEndsItsRequest(t *testing.T) {
	const long = `'$(head -c 17000000 /dev/zero | tr '\0' x)'`
	for name, test := range map[string]struct{ says, want string }{
		"an error that is a text":      {`{"id":3,"error":"no rows"}`, "no rows"},
		"a code that is a text":        {`{"id":3,"error":{"code":"E1","message":"no rows"}}`, "no rows"},
		"an error without a message":   {`{"id":3,"error":{"reason":"no rows"}}`, "no rows"},
		"data that is a text":          {`{"id":3,"error":{"code":1,"message":"x","data":"no rows"}}`, "no rows"},
		"an id that is a text":         {`{"id":"3","error":{"message":"no rows"}}`, "no rows"},
		"a mark and a carriage return": {"\ufeff" + `{"id":3,"error":{"message":"no rows"}}` + "\r", "no rows"},
		"a number that JSON has not":   {`{"id":3,"result":{"answer":NaN}}`, "invalid character"},
		"the id at its end":            {`{"result":{"id":7,"answer":[NaN,{"id":8}]},"id":3}`, "invalid character"},
		"a text before it":             {`done: {"id":3,"result":"x"}`, "invalid character"},
		"a line that is cut":           {`{"id":3,"result":{"answer":"x`, "unexpected end"},
		"a long answer":                {`{"id":3,"result":"` + long + `"}`, "16777216 bytes"},
		"a long answer, id at its end": {`{"result":"` + long + `","id":3}`, "16777216 bytes"},
		"a long text":                  {`{"method":"text","params":{"delta":"` + long + `","run":3}}`, "16777216 bytes"},
		"a text that is no message":    {`{"method":"text","params":{"run":3,"delta":NaN}}`, "invalid character"},
		"a method that is no text":     {`{"id":3,"method":7}`, "method must not be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := shellWithin(t, time.Minute, hello+`run() { while read l; do case "$l" in *'"method":"run"'*) return;; esac; done; }; `+
				`run; echo '{"id":2,"result":"'$$'"}'; run; echo '`+test.says+`'; run; echo '{"id":4,"result":"'$$'"}'; cat >/dev/null`, nil)
			first := plugintest.Run(t, a, plugintest.Config{}).Text()
			if res, _ := plugintest.Execute(t.Context(), a, plugintest.Config{}); res.Err == nil || !strings.Contains(res.Err.Error(), test.want) {
				t.Errorf("it ends with %v", res.Err)
			}
			if res := plugintest.Run(t, a, plugintest.Config{}); res.Text() != first {
				t.Errorf("the program was started anew: %q after %q, %v", res.Text(), first, res.Err)
			}
		})
	}
}

// A request that cannot be read gets the reason, and a line that belongs to none ends none.
func TestProtocol_InvalidRequestGetsItsReason(t *testing.T) {
	t.Parallel()
	script := hello + `read b; echo '{"jsonrpc":"2.0","id":"b1","method":"tools","params":{"run":2,"calls":[NaN]}}'; read c; echo "$c" >&2; ` +
		`head -c 17000000 /dev/zero | tr '\0' x; echo; echo '{"id":2,"result":"well"}'; cat >/dev/null`
	var out buffer
	a := shell(t, script, slog.New(slog.NewJSONHandler(&out, nil)))
	if res := plugintest.Run(t, a, plugintest.Config{}); res.Text() != "well" {
		t.Errorf("%q, %v", res.Text(), res.Err)
	}
	_ = a.Close(t.Context())
	if got := strings.ReplaceAll(out.String(), `\"`, `"`); !strings.Contains(got, `"id":"b1"`) || !strings.Contains(got, "cannot be read: invalid character") {
		t.Errorf("answer: %s", got)
	}
}

// A program that does not wait writes more than its run accepts.
func TestProtocol_LimitsInbox(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var opened sync.Once
	host := &watcher{saw: func(string) { <-gate }}
	mark := t.TempDir() + "/mark"
	script := hello + `read b; line='{"jsonrpc":"2.0","method":"text","params":{"run":2,"delta":"'$(head -c 100000 /dev/zero | tr '\0' x)'"}}'; ` +
		`for i in $(seq 200); do echo "$line"; done; touch ` + mark + `; cat >/dev/null`
	a := shell(t, script, nil)
	go func() { // ends when the program has written everything, without blocking
		defer opened.Do(func() { close(gate) })
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
			if _, err := os.Stat(mark); err == nil {
				return
			}
		}
	}()
	_, err := plugins.Execute(t.Context(), a, host, plugins.Input{})
	var shown *plugins.Error
	if !errors.As(err, &shown) || shown.Code != "overrun" {
		t.Error(err)
	}
}

// A program answers a run repeatedly while its earlier messages are not handled.
func TestProtocol_OneAnswerPerRun(t *testing.T) {
	gate := make(chan struct{})
	host := &watcher{saw: func(string) { <-gate }}
	mark := t.TempDir() + "/mark"
	script := hello + `read b; echo '{"jsonrpc":"2.0","method":"text","params":{"run":2,"delta":"a"}}'; ` +
		`line='{"jsonrpc":"2.0","id":2,"result":"'$(head -c 1000000 /dev/zero | tr '\0' x)'"}'; ` +
		`for i in $(seq 200); do echo "$line"; done; touch ` + mark + `; cat >/dev/null`
	a := shell(t, script, nil)
	kept := make(chan uint64, 1)
	go func() { // ends when the program has written everything
		defer close(gate)
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
			if _, err := os.Stat(mark); err == nil {
				break
			}
		}
		var mem runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&mem)
		kept <- mem.HeapAlloc
	}()
	if _, err := plugins.Execute(t.Context(), a, host, plugins.Input{}); err != nil {
		t.Error(err)
	}
	if n := <-kept; n > 50<<20 {
		t.Errorf("%d MiB are kept of unread answers", n>>20)
	}
}

// A program answers a run whose messages are unhandled when it is cancelled.
func TestProtocol_AnswerBeforeCancelIsNoHang(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	log := &buffer{}
	log.told = func() {
		switch said := log.buf.String(); {
		case strings.Contains(said, "line=cancelled"):
			open()
		case strings.Contains(said, "line=answered"):
			cancel()
		}
	}
	script := hello + `read b; echo '{"jsonrpc":"2.0","method":"text","params":{"run":2,"delta":"a"}}'; ` +
		`echo '{"jsonrpc":"2.0","id":2,"result":"b"}'; echo answered; n=3; while read c; do case "$c" in ` +
		`*'"method":"cancel"'*) echo cancelled;; ` +
		`*'"method":"run"'*) echo '{"jsonrpc":"2.0","id":'$n',"result":"'$$'"}'; n=$((n+1));; esac; done`
	a, err := process.NewAgent(process.Config{
		Info: plugins.Info{Name: "sh"}, Command: []string{"/bin/sh", "-c", script}, Stop: time.Millisecond, Start: 20 * time.Second,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(t.Context())
	host := &watcher{saw: func(string) { <-gate }}
	if _, err := plugins.Execute(ctx, a, host, plugins.Input{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	first := plugintest.Run(t, a, plugintest.Config{}).Text()
	for range 50 {
		if res := plugintest.Run(t, a, plugintest.Config{}); res.Text() != first {
			t.Fatalf("the program was started anew: %q after %q, %v", res.Text(), first, res.Err)
		}
	}
}

type buffer struct {
	told func() // called after each write, with mu held; can be nil

	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.buf.Write(p)
	if b.told != nil {
		b.told()
	}
	return n, err
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
