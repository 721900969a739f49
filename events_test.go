package baton_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// A run says which event it waits for, and goes on with the payload of one that its user or the program sends.
func TestSendEvent_RunGoesOn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		paid := plugins.AgentFunc("paid", func(ctx context.Context, run *plugins.Run) error {
			var payloads []string
			for _, name := range []string{"paid", "shipped"} {
				got, err := run.WaitFor(ctx, name, plugins.Within(time.Hour))
				if err != nil {
					return err
				}
				payloads = append(payloads, string(got.Payload))
			}
			_, err := fmt.Fprint(run.Text(), payloads)
			return err
		})
		server := open(t, baton.Config{Listen: "127.0.0.1:0", Database: database, Accounts: baton.AuthenticatorFunc(byHeader), Plugins: []plugins.Plugin{paid}})
		s, who := site{t, server.URL()}, "p1/alice/user"
		s.must(who, "POST", "/api/v1/agent/runs", `{"agent":"paid","threadId":"main","runId":"order","content":"x"}`)
		waits := func(name string) {
			t.Helper()
			var r wire.Run
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(time.Millisecond) {
				must(t, json.Unmarshal([]byte(s.request(who, "GET", runsPath+"order", "").body), &r))
				if w := r.Waiting; r.Status == runtime.Waiting && w != nil && w.Reason == "event" && w.Name == name && time.Until(*w.Until) > 50*time.Minute {
					return
				}
			}
			t.Fatalf("the run is %s and waits for %+v", r.Status, r.Waiting)
		}
		waits("paid")
		for range 2 {
			got := s.request(who, "POST", runsPath+"order/events/paid", `{"amount": 7}`, "Idempotency-Key", "k")
			if got.status != 202 || got.body != `{"delivered":true}` {
				t.Fatalf("got %d %s", got.status, got.body)
			}
		}
		waits("shipped")
		caller, err := baton.NewCaller("p1", "alice", runtime.RoleUser)
		must(t, err)
		delivered, err := server.SendEvent(t.Context(), caller, "order", baton.EventRequest{Name: "shipped"})
		if err != nil || !delivered {
			t.Fatalf("delivered %v, %v", delivered, err)
		}
		s.reach(who, "order", "COMPLETED")
		if got := s.must(who, "GET", runsPath+"order", "")["outputSummary"]; got != `[{"amount":7} null]` {
			t.Errorf("the answer is %q", got)
		}
	})
}
