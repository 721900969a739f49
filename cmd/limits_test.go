package cmd_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins/builtin"
)

// shown says where GET /api/v1/limits tells of a setting.
var shown = map[string]string{
	"limits.runs": "server.running", "limits.runs_per_agent": "server.runningPerAgent", "limits.runs_per_project": "project.running.limit",
	"limits.runs_per_user": "user.running.limit", "limits.runs_bytes": "server.runningBytes", "limits.runs_messages": "server.runningMessages",
	"limits.queue": "server.queued", "limits.body": "sizes.body", "limits.input": "sizes.input", "limits.messages": "sizes.messages",
	"limits.append": "sizes.append", "limits.event": "sizes.event", "limits.state": "sizes.state",
	"limits.requests_per_user": "user.requests.perSecond", "limits.burst_per_user": "user.requests.burst",
	"limits.requests_per_project": "project.requests.perSecond", "limits.burst_per_project": "project.requests.burst",
	"limits.streams_per_user": "user.streams.limit", "limits.streams_per_project": "project.streams.limit",
	"limits.queue_per_user": "user.queued.limit", "limits.queue_per_project": "project.queued.limit",
	"limits.tokens_per_day": "project.tokensPerDay.limit", "limits.run_events": "run.events", "limits.run_messages": "run.messages",
	"limits.in_flight": "server.inFlight", "limits.in_flight_per_user": "user.inFlight.limit", "limits.in_flight_per_project": "project.inFlight.limit",
	"limits.connections": "server.connections", "limits.connections_per_peer": "server.connectionsPerPeer",
	"limits.guesses_per_peer": "server.guessesPerPeer", "limits.least_rate": "server.leastRate",

	"timeouts.step": "timeouts.step", "timeouts.run": "timeouts.run", "timeouts.tool": "timeouts.tool", "timeouts.approval": "timeouts.approval",
	"timeouts.grace": "timeouts.grace", "timeouts.drain": "timeouts.drain", "timeouts.commit": "timeouts.commit", "timeouts.on_disconnect_grace": "timeouts.onDisconnectGrace",
	"timeouts.request_head": "timeouts.requestHead", "timeouts.request_body": "timeouts.requestBody", "timeouts.answer": "timeouts.answer",
	"timeouts.stall": "timeouts.stall", "timeouts.idle": "timeouts.idle",

	"stream.ping": "timeouts.ping", "stream.write_timeout": "timeouts.write",

	"attachments.size": "attachments.size", "attachments.types": "attachments.types", "attachments.files": "attachments.files",
	"attachments.bytes": "attachments.bytes", "attachments.uploads": "attachments.uploads", "attachments.expires": "attachments.url",
}

// elsewhere says why it does not tell of others.
var elsewhere = map[string]string{
	"timeouts.lease": "is between servers",

	"commit.interval": "is of no request: what is not stored yet waits", "commit.queue_run": "holds a worker up, and refuses nothing",
	"commit.queue": "likewise", "commit.batch_events": "is of a transaction", "commit.batch_bytes": "likewise",

	"stream.ring_events": "what is no longer in memory is read from the database", "stream.ring_bytes": "likewise", "stream.rings": "likewise",
	"stream.pace": "is how often there is a write, and not what", "stream.pace_above": "likewise", "stream.send_buffer": "is the kernel's",

	"attachments.directory": "is a place", "attachments.url": "likewise", "attachments.base_url": "likewise",
}

// atMost are the settings that have a bound.
var atMost = map[string]int{"limits.event": 8e6, "limits.state": 4 << 20}

// TestLimitsAreShown gives each setting that is a limit a value of its own, and looks for it. What else the answer has is fixed.
func TestLimitsAreShown(t *testing.T) {
	db := database(t)
	cfg := config.Default()
	cfg.Listen, cfg.Database, cfg.Auth.Mode = "127.0.0.1:0", db, config.AuthAPIKey
	want := map[string]any{}
	for name, section := range map[string]any{
		"limits": &cfg.Limits, "timeouts": &cfg.Timeouts, "commit": &cfg.Commit, "stream": &cfg.Stream, "attachments": &cfg.Attachments,
	} {
		v := reflect.ValueOf(section).Elem()
		for i := range v.NumField() {
			setting := name + "." + v.Type().Field(i).Tag.Get("yaml")
			if (shown[setting] == "") == (elsewhere[setting] == "") {
				t.Errorf("%s is to be shown, or it is to be said why it is not", setting)
			}
			if path := shown[setting]; path != "" {
				want[path] = changed(t, v.Field(i), i, atMost[setting])
			}
		}
	}
	cfg.Attachments.Directory = t.TempDir()
	if len(want) != len(shown) {
		t.Errorf("%d settings are known, and %d are there", len(shown), len(want))
	}
	maps.Copy(want, map[string]any{
		"sizes.socket": want["sizes.input"], "sizes.metadata": 65536.0,
		"sizes.head": 16384.0, "counts.page": 500.0, "counts.batch": 32.0, "server.queuedPerThread": 100.0,
		"user.subscriptions.limit": float64(10 * cfg.Limits.StreamsPerUser), "project.subscriptions.limit": float64(10 * cfg.Limits.StreamsPerProject),
	})
	key := strings.TrimSpace(baton(t.Context(), "keys", "create", "--database", db, "--user", "alice", "--project", "p").want(t, 0).stdout)
	s, err := cmd.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), builtin.Plugins()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/api/v1/limits", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		t.Fatal(res.Status, err)
	}
	limits := map[string]any{}
	flatten(got, "", limits)
	if diff := cmp.Diff(want, limits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// flatten puts what an object holds, but for what is used of it, into all by its path.
func flatten(object map[string]any, path string, all map[string]any) {
	for name, v := range object {
		within, ok := v.(map[string]any)
		switch {
		case name == "used":
		case ok:
			flatten(within, path+name+".", all)
		default:
			all[path+name] = v
		}
	}
}

// changed gives a setting a value that is no other's and not its default, and below most where that is above 0, and returns it as JSON has it.
func changed(t *testing.T, v reflect.Value, i, most int) any {
	t.Helper()
	switch set := v.Addr().Interface().(type) {
	case *int:
		*set += 300 + i
		return float64(*set)
	case *config.Size:
		if *set += config.Size(1+i) << 20; most > 0 {
			*set = config.Size(most - 1 - i)
		}
		return float64(*set)
	case *time.Duration:
		*set += time.Duration(1+i) * time.Second
		return set.Seconds()
	case *[]string:
		*set = []string{"image/*"}
		return []any{"image/*"}
	}
	t.Fatalf("a setting is a %v", v.Type())
	return nil
}
