package transporttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/blob"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/transports"
	aguidoor "github.com/batonrun/baton/transports/agui"
	"github.com/batonrun/baton/transports/mcp"
	"github.com/batonrun/baton/transports/monitor"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/ws"
)

// Patience is the time after which a test calls a wait a hang. It is far longer than any machine needs.
const Patience = 10 * time.Minute

// Main is the TestMain of a package that serves: no test may leave a goroutine behind.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// Config configures Start. Zero fields mean the default.
type Config struct {
	Mount    func(s *Server) []transports.Mounter // called when the other fields of s are set, except URL and Addr; default All
	Plugins  []plugins.Plugin                     // beside the built-in ones and a Typist
	Database string                               // URL, default a SQLite file that is removed after the test
	Server   transports.Config                    // Start sets Runtime, Streams and Log
	Streams  transports.StreamConfig              // Start sets Runtime and Log
	Runtime  runtime.Config                       // Start sets Store, Registry and Log; the defaults are Drain 1 ms and a long Patience
	Store    func(runtime.Store) runtime.Store    // wraps the runtime's database; nil for no wrapper
	Log      *slog.Logger                         // default: warnings go to the test's output

	Attachments attach.Config // Start sets Records and Log; Blobs is a temporary directory by default, or the PostgreSQL database
}

// Server is a Baton with a real listener.
type Server struct {
	testing.TB
	URL     string      // http://host:port
	Addr    string      // host:port
	Keys    chan string // what the Typist writes
	Runtime *runtime.Runtime
	Streams *transports.Streams
	Web     *transports.Server
	Logger  *slog.Logger
	Caller  runtime.Caller // the caller that clients of URL are
	Stop    func()         // stops the server and waits for its end; called at the test's end too
}

// All returns the transports that need nothing but a runtime and streams.
func All(s *Server) []transports.Mounter {
	return []transports.Mounter{
		monitor.Transport{Runtime: s.Runtime, Streams: s.Streams}, // before agui, whose paths begin with any agent's name
		rest.Transport{Runtime: s.Runtime, Streams: s.Streams},
		sse.Transport{Streams: s.Streams},
		ws.Transport{Runtime: s.Runtime, Streams: s.Streams, Log: s.Logger},
		aguidoor.Transport{Runtime: s.Runtime, Streams: s.Streams},
		mcp.Transport{Runtime: s.Runtime, Streams: s.Streams, Log: s.Logger, Version: "test"},
	}
}

// Start starts a server. It stops at the test's end, and carries no run on then.
func Start(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	s := &Server{
		TB:     tb,
		Keys:   make(chan string),
		Logger: cmp.Or(cfg.Log, slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))),
		Caller: runtime.MustCaller("default", "local", runtime.RoleUser),
	}
	if cfg.Mount == nil {
		cfg.Mount = All
	}
	reg := new(host.Registry)
	if err := reg.Add(append(append(builtin.Plugins(), Typist{s.Keys}), cfg.Plugins...)...); err != nil {
		tb.Fatal(err)
	}
	if cfg.Database == "" {
		cfg.Database = "sqlite:" + sqlitetest.New(tb)
	}
	db, err := storage.Open(tb.Context(), storage.Config{URL: cfg.Database, Migrate: true})
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Runtime.Drain = cmp.Or(cfg.Runtime.Drain, time.Millisecond)
	cfg.Runtime.Patience = cmp.Or(cfg.Runtime.Patience, Patience) // a busy machine may commit slowly
	dir := blob.NewDirectory(filepath.Join(tb.TempDir(), "attachments"))
	switch {
	case cfg.Attachments.Blobs != nil:
	case strings.HasPrefix(cfg.Database, "sqlite:"):
		cfg.Attachments.Blobs = dir
	default:
		cfg.Attachments.Blobs = db.Blobs()
	}
	cfg.Attachments.Records, cfg.Attachments.Log = db.Attachments, s.Logger
	cfg.Runtime.Attachments = attach.New(cfg.Attachments)
	if db.Shared() && cfg.Runtime.Bus == nil {
		cfg.Runtime.Bus = db.Registry.Bus()
	}
	cfg.Runtime.Store, cfg.Runtime.Registry, cfg.Runtime.Log = db, reg, s.Logger
	if cfg.Store != nil {
		cfg.Runtime.Store = cfg.Store(db)
	}
	if s.Runtime, err = runtime.New(cfg.Runtime); err != nil {
		tb.Fatal(err)
	}
	if err := s.Runtime.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if db.Shared() {
		cfg.Streams.Ties = db.Ties()
	}
	cfg.Streams.Runtime, cfg.Streams.Log = s.Runtime, s.Logger
	s.Streams = transports.NewStreams(cfg.Streams)
	cfg.Server.Runtime, cfg.Server.Streams, cfg.Server.Log = s.Runtime, s.Streams, s.Logger
	cfg.Server.WriteTimeout = cmp.Or(cfg.Server.WriteTimeout, time.Hour) // so that no timeout ends a hang before the test does
	cfg.Server.IdleTimeout = cmp.Or(cfg.Server.IdleTimeout, time.Hour)
	s.Web, err = transports.New(cfg.Server, cfg.Mount(s)...)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.Addr = ln.Addr().String()
	s.URL = "http://" + s.Addr
	served := make(chan error, 1)
	go func() { served <- s.Web.Serve(ln) }() // ends with Stop
	s.Stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := errors.Join(s.Runtime.Shutdown(ctx), s.Web.Shutdown(ctx), <-served, dir.Close(), db.Close()); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(s.Stop)
	return s
}

// Eventually waits for ok.
func (s *Server) Eventually(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(Patience); !ok(); {
		if time.Now().After(deadline) {
			s.Fatalf("never: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// Await waits until the run, which must be there, has one of the statuses.
func (s *Server) Await(run string, want ...runtime.Status) {
	s.Helper()
	s.Eventually(fmt.Sprintf("run %s is %v", run, want), func() bool {
		r, err := s.Runtime.Runs.Get(context.Background(), s.Caller, run)
		if err != nil {
			s.Fatal(err)
		}
		return slices.Contains(want, r.Status)
	})
}

// OutlastGrace returns when the graces of connections that have been dropped are over: one that begins now is.
func (s *Server) OutlastGrace() {
	s.Helper()
	req := runtime.StartRequest{
		Agent: "scripted", Messages: []agui.Message{{Role: agui.RoleUser, Content: `{"do": [{"tool": "sleep", "args": {"ms": 600000}}]}`}},
	}
	s.Streams.Ownership.Own(s.Caller, &req)
	started, err := s.Streams.Ownership.StartRun(s.Context(), s.Caller, req)
	if err != nil {
		s.Fatal(err)
	}
	cur, err := s.Runtime.Logs.ReadRun(s.Context(), started)
	if err != nil {
		s.Fatal(err)
	}
	s.Streams.Ownership.TieRun(nobody{}, s.Caller, nil, started).Drop(cur)
	s.Await(started.RunID, runtime.Cancelled)
}

// nobody is a closed connection.
type nobody struct{}

func (nobody) Gone() bool { return true }

// TakeTurns takes all free turns for large answers, and returns their number and a function that returns them.
func (s *Server) TakeTurns() (n int, back func()) {
	over, cancel := context.WithCancel(context.Background())
	cancel() // it waits for no turn
	var ends []func()
	for {
		end, err := s.Streams.Turn(over, s.Caller)
		if err != nil {
			break
		}
		ends = append(ends, end)
	}
	return len(ends), func() {
		for _, end := range ends {
			end()
		}
	}
}
