package baton_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/transports/telemetry/traces"
)

// A program mounts the handlers before Start, has its own spans and registry, and reads its runs.
func TestServer_InAProgram(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	tracer := provider.Tracer("program")
	registry := prometheus.NewRegistry()
	srv, err := baton.New(baton.Config{
		Database: "sqlite:" + sqlitetest.New(t), Plugins: builtin.Plugins(), Tuning: baton.Tuning{Tracer: traces.New(provider), Insecure: true}, // requests in memory come from no address
	})
	must(t, err)
	registry.MustRegister(collectors.NewGoCollector(), srv.Collector())
	parents := map[trace.SpanID]bool{}
	begin := func(ctx context.Context) (context.Context, trace.Span) {
		ctx, span := tracer.Start(ctx, "request")
		parents[span.SpanContext().SpanID()] = true
		return ctx, span
	}
	handler, app := srv.Handler(), fiber.New()
	app.Use(func(c *fiber.Ctx) error {
		ctx, span := begin(c.UserContext())
		defer span.End()
		c.SetUserContext(ctx)
		return c.Next()
	}, srv.Fiber())
	doors := map[string]func(*http.Request) *http.Response{
		"Handler": func(r *http.Request) *http.Response {
			ctx, span := begin(r.Context())
			defer span.End()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r.WithContext(ctx))
			return w.Result()
		},
		"Fiber": func(r *http.Request) *http.Response {
			res, err := app.Test(r, -1)
			must(t, err)
			return res
		},
	}
	ask := func(door string) int {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/agent/runs", strings.NewReader(`{"agent":"echo","threadId":"`+door+`","content":"hi"}`))
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		res := doors[door](r)
		defer res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", door)
		}
		return res.StatusCode
	}
	for door := range doors {
		if status := ask(door); status != http.StatusServiceUnavailable {
			t.Errorf("%s before Start: %d", door, status)
		}
	}
	must(t, srv.Start(t.Context()))
	defer srv.Close()
	clear(parents)
	for door := range doors {
		if status := ask(door); status != http.StatusAccepted && status != http.StatusOK && status != http.StatusCreated {
			t.Errorf("%s: %d", door, status)
		}
	}
	started := 0
	for _, span := range spans.Ended() {
		if strings.HasPrefix(span.Name(), "start_run") {
			started++
			if !parents[span.Parent().SpanID()] {
				t.Errorf("%s has another parent than the program's span", span.Name())
			}
		}
	}
	if started != len(doors) {
		t.Errorf("%d requests for runs were traced", started)
	}
	families, err := registry.Gather()
	must(t, err)
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	if !names["baton_build_info"] || !names["baton_runs"] || !names["baton_run_queue_seconds"] {
		t.Errorf("the program's registry has %v", names)
	}

	local, err := baton.NewCaller("default", "local", baton.RoleUser)
	must(t, err)
	run, err := srv.StartRun(t.Context(), local, baton.StartRequest{Agent: "echo", Messages: []agui.Message{{Role: agui.RoleUser, Content: "hi"}}})
	must(t, err)
	events, err := srv.ReadRun(t.Context(), run)
	must(t, err)
	for err == nil {
		_, err = events.Next(t.Context())
	}
	events.Close()
	runs := srv.Runs()
	got, err := runs.Get(t.Context(), local, run.RunID)
	if err != nil || got.Status != "COMPLETED" {
		t.Errorf("the run is %s, %v", got.Status, err)
	}
	if page, err := runs.List(t.Context(), local, baton.RunFilter{}); err != nil || len(page.Rows) != 1+len(doors) || page.Rows[0].ID != run.RunID {
		t.Errorf("listed %d runs, %v", len(page.Rows), err)
	}
	if err := runs.Delete(t.Context(), local, run.RunID); err != nil {
		t.Error(err)
	}
	if _, err := runs.Get(t.Context(), local, run.RunID); !errors.Is(err, runtime.ErrRunNotFound) {
		t.Errorf("a deleted run: %v", err)
	}
}
