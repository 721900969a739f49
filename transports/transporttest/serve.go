package transporttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
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
)

// Patience is how long a test waits for what should come at once, before it calls it a hang: only that takes so long on any machine.
const Patience = 10 * time.Minute

// Main is the TestMain of a package that serves: no test may leave a goroutine behind.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// Config says what Serve starts. Mount must be set; other zero fields mean the default.
type Config struct {
	Mount    func(s *Server) []transports.Mounter // called when the other fields of s are set, but for URL and Addr
	Plugins  []plugins.Plugin                     // beside the built-in ones
	Database string                               // URL, default a SQLite file that goes with the test
	Origins  []string                             // of pages that are admitted
	Slack    time.Duration                        // for which a message may not get on
	Rate     int                                  // at which clients must take answers
	Streams  transports.StreamConfig              // Runtime and Log are set by Serve
	Runtime  runtime.Config                       // Store, Registry and Log are set by Serve; Drain is 1 ms by default
	Store    func(runtime.Store) runtime.Store    // puts something between the runtime and its database; nil for nothing

	Attachments attach.Config // Records and Log are set by Serve; Blobs is a directory that goes with the test by default
}

// Server is a Baton behind a real listener.
type Server struct {
	testing.TB
	URL     string // http://host:port
	Addr    string // host:port
	Runtime *runtime.Runtime
	Streams *transports.Streams
	Logger  *slog.Logger   // shows warnings beside the test
	Caller  runtime.Caller // who clients of URL are
	Stop    func()         // returns when the server has ended; the test's end calls it too
}

// Serve starts a server.
func Serve(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	s := &Server{
		TB:     tb,
		Logger: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Caller: runtime.MustCaller("default", "local", runtime.RoleUser),
	}
	reg := new(host.Registry)
	if err := reg.Add(append(builtin.Plugins(), cfg.Plugins...)...); err != nil {
		tb.Fatal(err)
	}
	if cfg.Database == "" {
		cfg.Database = "sqlite:" + sqlitetest.New(tb)
	}
	db, err := storage.Open(tb.Context(), storage.Config{URL: cfg.Database, Migrate: true})
	if err != nil {
		tb.Fatal(err)
	}
	if cfg.Runtime.Drain == 0 {
		cfg.Runtime.Drain = time.Millisecond
	}
	dir := blob.NewDirectory(filepath.Join(tb.TempDir(), "attachments"))
	if cfg.Attachments.Blobs == nil {
		cfg.Attachments.Blobs = dir
	}
	cfg.Attachments.Records, cfg.Attachments.Log = db, s.Logger
	cfg.Runtime.Attachments = attach.New(cfg.Attachments)
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
	cfg.Streams.Runtime, cfg.Streams.Log = s.Runtime, s.Logger
	s.Streams = transports.NewStreams(cfg.Streams)
	web, err := transports.New(
		transports.Config{
			Runtime: s.Runtime, Streams: s.Streams, Log: s.Logger, Origins: cfg.Origins, Slack: cfg.Slack, Rate: cfg.Rate,
			WriteTimeout: time.Hour, IdleTimeout: time.Hour, // not what ends a hang while a test waits
		}, cfg.Mount(s)...)
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
	go func() { served <- web.Serve(ln) }() // ends with Stop
	s.Stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := errors.Join(s.Runtime.Shutdown(ctx), web.Shutdown(ctx), <-served, dir.Close(), db.Close()); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(s.Stop)
	return s
}

// Eventually waits for what must become true.
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
		r, err := s.Runtime.Run(context.Background(), s.Caller, run)
		if err != nil {
			s.Fatal(err)
		}
		return slices.Contains(want, r.Status)
	})
}

// OutlastGrace returns when the graces of connections that have been dropped are over: one that begins now is.
func (s *Server) OutlastGrace() {
	s.Helper()
	started, err := s.Streams.StartRun(s.Context(), s.Caller, runtime.StartRequest{
		Agent: "scripted", Messages: []agui.Message{{Role: agui.RoleUser, Content: `{"do": [{"tool": "sleep", "args": {"ms": 600000}}]}`}},
	})
	if err != nil {
		s.Fatal(err)
	}
	cur, err := s.Runtime.ReadRun(s.Context(), started)
	if err != nil {
		s.Fatal(err)
	}
	s.Streams.Hold(nobody{}, s.Caller, nil, started).Drop(cur)
	s.Await(started.RunID, runtime.Cancelled)
}

// nobody is a connection whose client has left.
type nobody struct{}

func (nobody) Gone() bool { return true }

// TakeTurns takes all turns that are free for answers that may be large, until it is given them back, and says how many.
func (s *Server) TakeTurns() (n int, back func()) {
	over, cancel := context.WithCancel(context.Background())
	cancel() // it waits for none
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
