package cmd_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"math"
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

// shown maps settings to their places in the answer of GET /api/v1/limits.
var shown = map[string]string{
	"limits.runs": "server.running", "limits.runs_per_project": "project.running.limit", "limits.runs_per_user": "user.running.limit",
	"limits.runs_bytes": "server.runningBytes", "limits.runs_messages": "server.runningMessages",
	"limits.queue": "server.queued", "limits.input": "sizes.input",
	"limits.requests_per_user": "user.requests.perSecond", "limits.requests_per_project": "project.requests.perSecond",
	"limits.streams_per_user": "user.streams.limit", "limits.streams_per_project": "project.streams.limit",

	"timeouts.step": "timeouts.step", "timeouts.run": "timeouts.run", "timeouts.tool": "timeouts.tool", "timeouts.approval": "timeouts.approval",
	"timeouts.drain": "timeouts.drain", "timeouts.on_disconnect_grace": "timeouts.onDisconnectGrace", "timeouts.ping": "timeouts.ping",

	"attachments.size": "attachments.size", "attachments.types": "attachments.types", "attachments.bytes": "attachments.bytes",
}

// hidden maps the settings that the answer does not have to the reason.
var hidden = map[string]string{
	"timeouts.lease":        "concerns other servers, not clients",
	"timeouts.agent_gone":   "concerns other servers, not clients",
	"attachments.directory": "is a place", "attachments.url": "is a place", "attachments.base_url": "is a place",
}

// TestLimits_ShowSettings sets each limit to a unique value and looks for it. The other fields are constants, or depend on
// settings.
func TestLimits_ShowSettings(t *testing.T) {
	db := database(t)
	cfg := config.Default()
	cfg.Listen, cfg.Database, cfg.Auth.Mode = "127.0.0.1:0", db, config.AuthAPIKey
	want := map[string]any{}
	for name, section := range map[string]any{
		"limits": &cfg.Limits, "timeouts": &cfg.Timeouts, "attachments": &cfg.Attachments,
	} {
		v := reflect.ValueOf(section).Elem()
		for i := range v.NumField() {
			setting := name + "." + v.Type().Field(i).Tag.Get("yaml")
			if (shown[setting] == "") == (hidden[setting] == "") {
				t.Errorf("%s must be either in shown or in hidden", setting)
			}
			if path := shown[setting]; path != "" {
				want[path] = changed(t, v.Field(i), i)
			}
		}
	}
	cfg.Attachments.Directory = t.TempDir()
	if len(want) != len(shown) {
		t.Errorf("shown has %d settings, want %d", len(shown), len(want))
	}
	maps.Copy(want, map[string]any{
		"sizes.socket": want["sizes.input"], "sizes.metadata": 65536.0, "sizes.body": 2097152.0, "sizes.messages": 8e6, "sizes.append": 1048576.0,
		"sizes.event": 8e6, "sizes.state": 4194304.0, "sizes.head": 16384.0, "counts.page": 500.0, "counts.batch": 32.0,
		"run.events": 1e7, "run.messages": 67108864.0, "server.queuedPerThread": 100.0, "server.runningPerAgent": nil,
		"server.inFlight": 100663296.0, "server.leastRate": 4096.0, "server.guessesPerPeer": 60.0,
		"user.inFlight.limit": 50331648.0, "project.inFlight.limit": 75497472.0,
		"user.queued.limit": float64(cfg.Limits.Queue / 10), "project.queued.limit": float64(cfg.Limits.Queue / 2),
		"user.requests.burst": float64(4 * cfg.Limits.RequestsPerUser), "project.requests.burst": float64(4 * cfg.Limits.RequestsPerProject),
		"user.subscriptions.limit": float64(10 * cfg.Limits.StreamsPerUser), "project.subscriptions.limit": float64(10 * cfg.Limits.StreamsPerProject),
		"timeouts.grace": 5.0, "timeouts.commit": 10.0, "timeouts.requestHead": 10.0, "timeouts.requestBody": 60.0, "timeouts.answer": 300.0,
		"timeouts.stall": 10.0, "timeouts.idle": 120.0, "timeouts.write": 2 * cfg.Timeouts.Ping.Seconds(),
		"attachments.files": 1000.0, "attachments.uploads": 8.0, "attachments.url": 900.0,
	})
	key := strings.TrimSpace(baton(t.Context(), "keys", "create", "--database", db, "--user", "alice", "--project", "p").want(t, 0).stdout)
	s, err := cmd.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), builtin.Plugins()...)
	must(t, err)
	t.Cleanup(func() { stop(t, s) })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/api/v1/limits", http.NoBody)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		t.Fatal(res.Status, err)
	}
	limits := map[string]any{}
	flatten(got, "", limits)
	all, _ := limits["server.connections"].(float64) // which depends on the process
	if each := limits["server.connectionsPerPeer"]; all <= 0 || each != math.Floor(all/2) {
		t.Errorf("there may be %v connections, and %v of one peer", all, each)
	}
	delete(limits, "server.connections")
	delete(limits, "server.connectionsPerPeer")
	if diff := cmp.Diff(want, limits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// flatten puts the members of an object, except used, into all by their paths.
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

// changed sets a setting to a unique value that is not its default, and returns it in its form in JSON.
func changed(t *testing.T, v reflect.Value, i int) any {
	t.Helper()
	switch set := v.Addr().Interface().(type) {
	case *int:
		*set += 300 + i
		return float64(*set)
	case *config.Size:
		*set += config.Size(1+i) << 20
		return float64(*set)
	case *time.Duration:
		*set += time.Duration(1+i) * time.Second
		return set.Seconds()
	case *[]string:
		*set = []string{"image/*"}
		return []any{"image/*"}
	}
	t.Fatalf("a setting has type %v", v.Type())
	return nil
}
