package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime/bus/natsbus/natstest"
	"github.com/batonrun/baton/storage/storagetest"
)

func TestMain(m *testing.M) {
	child()
	os.Exit(m.Run())
}

// serve starts a server in this process, with a few settings changed, and returns its URL.
func serve(t *testing.T, change func(*config.Config)) string {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.Database = "127.0.0.1:0", "sqlite:"+filepath.Join(t.TempDir(), "baton.db")
	change(&cfg)
	s, err := cmd.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), builtin.Plugins()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx) // reports that it did not wait for runs
	})
	return s.URL()
}

func TestBench_PassesItsOwnChecks(t *testing.T) {
	url := serve(t, func(*config.Config) {})
	for _, args := range []string{
		"runs --runs 4 --total 8 --tokens 20",
		"runs --runs 2 --total 4 --tokens 20 --viewers 3 --projection seed --delay 1ms",
		"viewers --viewers 20 --events 10 --delay 5ms --bursts 2 --gap 10ms",
		"cancel --runs 2 --sleep 100ms",
		"idle --streams 5",
	} {
		if err := measure(t, append(strings.Fields(args), "--server", url)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	if err := measure(t, "crowd", "--server", url); err == nil {
		t.Error("crowd measured a server without the necessary settings")
	}
}

func TestCrowd_MeasuresGivenDatabase(t *testing.T) {
	database := filepath.Join(t.TempDir(), "given.db")
	if err := measure(t, "crowd", "--users", "3", "--runs", "3", "--pause", "1ms", "--database", "sqlite:"+database); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(database); err != nil {
		t.Errorf("the server did not use the given database: %v", err)
	}
}

func TestParked_MeasuresRunsThatWake(t *testing.T) {
	if err := measure(t, "parked", "--runs", "20", "--due", "5"); err != nil {
		t.Error(err)
	}
}

func TestCluster_MeasuresEachKind(t *testing.T) {
	url, nats := storagetest.Postgres(t).NewDatabase(t), natstest.Start(t, "").URL
	if err := measure(t, "cluster", "--rounds", "1", "--total", "6", "--runs", "3", "--events", "5", "--viewers", "2", "--database", url, "--nats", nats); err != nil {
		t.Error(err)
	}
	if err := measure(t, "cluster"); err == nil {
		t.Error("it measured a cluster without PostgreSQL")
	}
}

// measure runs a bench, which must print reports.
func measure(t *testing.T, args ...string) error {
	t.Helper()
	var out bytes.Buffer
	bench := command()
	bench.SetArgs(append(args, "--json"))
	bench.SetOut(&out)
	err := bench.ExecuteContext(t.Context())
	for line := range strings.Lines(out.String()) {
		var report struct {
			Bench   string
			Figures []struct{ Values []float64 }
		}
		if err := json.Unmarshal([]byte(line), &report); err != nil || report.Bench == "" || len(report.Figures) == 0 {
			t.Errorf("%s: got %q, %v", args, line, err)
		}
	}
	return err
}

func TestBeside_Measures(t *testing.T) {
	if err := measure(t, "beside", "--kinds", "rerun", "--runs", "1", "--pause", "1ms", "--at-once", "1", "--bytes", "1000"); err != nil {
		t.Error(err)
	}
}

func TestBeside_ServerAcceptsEachKind(t *testing.T) {
	l := loads{Key: []byte(strings.Repeat("k", 32)), Bytes: 1000, Small: 2}
	url := serve(t, func(cfg *config.Config) {
		cfg.Auth.Mode, cfg.Auth.Secret, cfg.Auth.TestPlugins = config.AuthJWT, string(l.Key), true
	})
	l.Addr = strings.TrimPrefix(url, "http://")
	for kind, prepare := range heavy {
		var err error
		if l.token, err = tokenOf(l.Key, kind, "elsewhere"); err != nil {
			t.Fatal(err)
		}
		request, err := prepare(&l)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		c, err := dial(l.Addr)
		if err != nil {
			t.Fatal(err)
		}
		method, path, body := request()
		if status, err := l.ask(c, method, path, body); err != nil || status >= 300 {
			t.Errorf("%s: %d, %v", kind, status, err)
		}
		_ = c.Close()
	}
}
