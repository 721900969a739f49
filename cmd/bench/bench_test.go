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

func TestBench_PassesItsOwnChecks(t *testing.T) {
	cfg := config.Default()
	cfg.Listen, cfg.Database = "127.0.0.1:0", "sqlite:"+filepath.Join(t.TempDir(), "baton.db")
	s, err := cmd.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), builtin.Plugins()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx) // reports that it did not wait for runs
	}()
	for _, args := range []string{
		"runs --runs 4 --total 8 --tokens 20",
		"runs --runs 2 --total 4 --tokens 20 --viewers 3 --projection seed --delay 1ms",
		"viewers --viewers 20 --events 10 --delay 5ms --bursts 2 --gap 10ms",
		"cancel --runs 2 --sleep 100ms",
		"idle --streams 5",
		"leave --viewers 5 --events 5 --after 1ms",
	} {
		if err := measure(t, append(strings.Fields(args), "--server", s.URL())...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	if err := measure(t, "crowd", "--server", s.URL()); err == nil {
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

func TestCluster_MeasuresEachKind(t *testing.T) {
	url, nats := storagetest.StartPostgres(t).NewDatabase(t), natstest.Start(t, "").URL
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

func TestBeside_MeasuresEachKind(t *testing.T) {
	if err := measure(t, "beside", "--runs", "2", "--pause", "1ms", "--at-once", "2", "--bytes", "100000", "--small", "20"); err != nil {
		t.Error(err)
	}
}
