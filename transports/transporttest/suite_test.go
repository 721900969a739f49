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
	"github.com/batonrun/baton/transports"
	aguidoor "github.com/batonrun/baton/transports/agui"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestTransportsShowOneLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "baton.db")
	start := func(t *testing.T) transporttest.Server { return serve(t, "sqlite:"+path) }
	transporttest.Run(t, start, map[string]transporttest.View{
		"SSE":        {Projection: agui.Seed, Read: readEvents},
		"SSE answer": {Projection: agui.AGUI1, Read: readAnswers("/api/v1/agent/runs"), FirstSpans: true},
		"AG-UI":      {Projection: agui.AGUI1, Read: readAnswers("/api/v1/agui/"), FirstSpans: true},
		"REST":       {Projection: agui.Public, Read: readPages, Step: 7},
	})
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
