package transporttest_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/storagetest"
	"github.com/batonrun/baton/transports"
	aguidoor "github.com/batonrun/baton/transports/agui"
	"github.com/batonrun/baton/transports/mcp"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/transporttest"
	"github.com/batonrun/baton/transports/ws"
)

func TestTransportsShowOneLog(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "baton.db") },
		"PostgreSQL": func(t *testing.T) string { return storagetest.Postgres(t).NewDatabase(t) },
	} {
		t.Run(name, func(t *testing.T) {
			database := open(t)
			start := func(t *testing.T) transporttest.Server { return serve(t, database) }
			transporttest.Run(t, start, views())
		})
	}
}

func views() map[string]transporttest.View {
	return map[string]transporttest.View{
		"SSE":                  {Projection: agui.Seed, Read: readEvents},
		"SSE answer":           {Projection: agui.AGUI1, Read: readAnswers("/api/v1/agent/runs"), FirstSpans: true},
		"AG-UI":                {Projection: agui.AGUI1, Read: readAnswers("/api/v1/agui/"), FirstSpans: true},
		"AG-UI over WebSocket": {Projection: agui.AGUI1, Read: readDoor, FirstSpans: true, NoIDs: true},
		"WebSocket":            {Projection: agui.Seed, Read: readMirror},
		"WebSocket for many":   {Projection: agui.Seed, Read: readSubscription, Step: 3},
		"REST":                 {Projection: agui.Public, Read: readPages, Step: 7},
		"MCP":                  {Projection: agui.Public, Read: readTool, Step: 31},
	}
}

// serve starts a server with all transports.
func serve(t *testing.T, database string) transporttest.Server {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	reg := new(plugins.Registry)
	if err := reg.Add(builtin.Plugins()...); err != nil {
		t.Fatal(err)
	}
	db, err := storage.Open(t.Context(), storage.Config{URL: database, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := runtime.New(runtime.Config{Store: db, Registry: reg, Log: log, Drain: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	streams := transports.NewStreams(transports.StreamConfig{Runtime: rt, Log: log})
	web, err := transports.New(transports.Config{Runtime: rt, Streams: streams, Log: log},
		rest.Transport{Runtime: rt, Streams: streams},
		sse.Transport{Runtime: rt, Streams: streams},
		ws.Transport{Runtime: rt, Streams: streams, Log: log},
		mcp.Transport{Runtime: rt, Streams: streams, Log: log},
		aguidoor.Transport{Runtime: rt, Streams: streams})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(ln) }() // ends with stop
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		ctx := context.Background()
		if err := errors.Join(rt.Shutdown(ctx), web.Shutdown(ctx), <-served, db.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return transporttest.Server{
		URL: "http://" + ln.Addr().String(), Runtime: rt, Stop: stop,
		Caller: runtime.Caller{Project: "default", User: "local", Role: runtime.RoleUser},
	}
}
