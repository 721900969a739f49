package baton_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/typed"
	"github.com/batonrun/baton/runtime/agui"
)

// An agent is a function. Its output is streamed and stored as it is written.
var shout = plugins.AgentFunc("shout", func(_ context.Context, run *plugins.Run) error {
	_, err := io.WriteString(run.Text(), strings.ToUpper(run.Input.Query)+"!")
	return err
})

// A complete server, with its database in the file baton.db. After Ctrl-C, running runs have half a minute to finish.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	srv, err := baton.New(baton.Config{Listen: "127.0.0.1:8080", Plugins: []plugins.Plugin{shout}})
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.Run(ctx); err != nil {
		log.Fatal(err)
	}
	stop()
}

// Baton's routes in a program that serves net/http.
func ExampleServer_Handler() {
	srv, err := baton.New(baton.Config{Database: inTemp("http.db"), Plugins: []plugins.Plugin{shout}})
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "my own page") })
	mux.Handle("/api/", srv.Handler())

	my := httptest.NewServer(mux) // in your program: http.ListenAndServe
	defer my.Close()
	defer srv.Close() // first, because its streams keep the server's connections open
	show(my.URL, "", `"delta"`)
	// Output:
	// {"type":"TEXT_MESSAGE_CONTENT","messageId":"…","delta":"HELLO!"}
}

// Baton's routes in a program that serves fiber.
func ExampleServer_Fiber() {
	srv, err := baton.New(baton.Config{Database: inTemp("fiber.db"), Plugins: []plugins.Plugin{shout}})
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.Start(context.Background()); err != nil {
		log.Fatal(err)
	}

	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("my own page") })
	app.Use("/api", srv.Fiber())

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = app.Listener(ln) }() // in your program: app.Listen(":8080")
	show("http://"+ln.Addr().String(), "", `"delta"`)

	srv.Close() // first, because its streams keep the app's connections open
	_ = app.Shutdown()
	// Output:
	// {"type":"TEXT_MESSAGE_CONTENT","messageId":"…","delta":"HELLO!"}
}

// Baton with a program's own accounts: middleware identifies the user and passes it to Baton.
func ExampleConfig_caller() {
	type userKey struct{}
	authenticated := func(next http.Handler) http.Handler { // your program's own way: sessions, tokens, …
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, ok := r.BasicAuth(); ok && password == "secret" {
				r = r.WithContext(context.WithValue(r.Context(), userKey{}, user))
			}
			next.ServeHTTP(w, r)
		})
	}
	whoami := plugins.AgentFunc("shout", func(_ context.Context, run *plugins.Run) error {
		_, err := fmt.Fprintf(run.Text(), "you are %s of %s", run.Input.User, run.Input.Project)
		return err
	})

	srv, err := baton.New(baton.Config{
		Database: inTemp("caller.db"),
		Plugins:  []plugins.Plugin{whoami},
		Accounts: baton.AuthenticatorFunc(func(r *http.Request) (baton.Identity, error) {
			user, ok := r.Context().Value(userKey{}).(string)
			if !ok {
				return baton.Identity{}, errors.New("nobody is logged in") // answered with 401
			}
			return baton.Identity{Projects: []string{"acme"}, User: user, Role: baton.RoleUser}, nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}

	if err := srv.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	my := httptest.NewServer(authenticated(srv.Handler()))
	defer my.Close()
	defer srv.Close()
	show(my.URL, "alice", `"delta"`)
	show(my.URL, "", "detail")
	// Output:
	// {"type":"TEXT_MESSAGE_CONTENT","messageId":"…","delta":"you are alice of acme"}
	// {"detail":"This server does not know who you are; send a credential that it takes","code":"unauthorized"}
}

// A program that starts a run, reads its events, answers its question, appends a message and cancels it, without HTTP.
func ExampleServer_StartRun() {
	polite := plugins.AgentFunc("polite", func(ctx context.Context, run *plugins.Run) error {
		answer, err := run.Ask(ctx, agui.Interrupt{Message: "What is your name?"})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(run.Text(), "Hello %s!", answer.Payload)
		return err
	})
	ctx := context.Background()
	srv, err := baton.New(baton.Config{Database: inTemp("runs.db"), Plugins: []plugins.Plugin{polite}})
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.Start(ctx); err != nil {
		log.Fatal(err)
	}
	alice, err := baton.NewCaller("default", "alice", baton.RoleUser)
	if err != nil {
		log.Fatal(err)
	}
	started, err := srv.StartRun(ctx, alice, baton.StartRequest{
		Agent: "polite", Messages: []agui.Message{{Role: agui.RoleUser, Content: "hi"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	question, err := last(ctx, srv, started)
	if err != nil {
		log.Fatal(err)
	}
	asked := question.Outcome.Interrupts[0]
	fmt.Println(asked.Message)
	_, err = srv.Answer(ctx, alice, started.RunID, []agui.ResumeEntry{
		{InterruptID: asked.ID, Status: "resolved", Payload: json.RawMessage(`"Alice"`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := srv.Append(ctx, alice, started.RunID, baton.AppendRequest{Content: "and again"}); err != nil {
		log.Fatal(err)
	}
	run, err := srv.Cancel(ctx, alice, started.RunID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Status)
	if err := srv.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// What is your name?
	// CANCELLED
}

// last reads the events of a run until it finishes or waits, and returns the last one.
func last(ctx context.Context, srv *baton.Server, started baton.Started) (end *agui.RunFinished, err error) {
	events, err := srv.ReadRun(ctx, started)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	for {
		records, err := events.Next(ctx)
		for _, r := range records {
			if finished, ok := r.Event.(agui.RunFinished); ok {
				end = &finished
			}
		}
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// A tool with Go structs as input and output, and an agent that calls it.
func Example_typedTool() {
	type order struct {
		Item  string `json:"item" jsonschema:"what is bought"`
		Count int    `json:"count,omitempty" jsonschema:"how many, one if absent"`
	}
	type price struct {
		Cents int `json:"cents"`
	}
	tool := typed.Tool(plugins.Info{Name: "price", Description: "Tells what something costs.", Idempotent: true},
		func(_ context.Context, _ *plugins.Call, in order) (price, error) {
			if in.Item != "tea" {
				return price{}, &plugins.Error{Code: "unknown_item", Message: "There is only tea"}
			}
			return price{Cents: 250 * max(in.Count, 1)}, nil
		})
	shop := plugins.AgentFunc("shout", func(ctx context.Context, run *plugins.Run) error {
		out, err := run.CallTool(ctx, "price", order{Item: "tea", Count: 2})
		if err != nil {
			return err
		}
		_, err = io.WriteString(run.Text(), out.ResultSummary)
		return err
	})

	srv, err := baton.New(baton.Config{
		Listen: "127.0.0.1:0", Database: inTemp("typed.db"), Plugins: []plugins.Plugin{tool, shop},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	fmt.Println(string(tool.Info().Parameters))
	show(srv.URL(), "", `"delta":"{\"cents`)
	// Output:
	// {"type":"object","properties":{"item":{"type":"string","description":"what is bought"},"count":{"type":"integer","description":"how many, one if absent"}},"required":["item"],"additionalProperties":false}
	// {"type":"TEXT_MESSAGE_CONTENT","messageId":"…","delta":"{\"cents\":500}"}
}

// show asks the agent to shout hello, and prints the lines of the answer that contain text, without ids.
func show(url, user, text string) {
	req, err := http.NewRequest(http.MethodPost, url+"/api/v1/agent/runs", strings.NewReader(`{"agent":"shout","content":"hello"}`))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if user != "" {
		req.SetBasicAuth(user, "secret")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := strings.TrimPrefix(lines.Text(), "data: ")
		if !strings.Contains(line, text) {
			continue
		}
		if before, rest, ok := strings.Cut(line, `"messageId":"`); ok {
			_, rest, _ = strings.Cut(rest, `"`)
			line = before + `"messageId":"…"` + rest
		}
		fmt.Println(line)
	}
}

// inTemp returns a database that is removed after the tests.
func inTemp(name string) string { return "sqlite:" + filepath.Join(temp, name) }
