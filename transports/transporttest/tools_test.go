package transporttest_test

import (
	"encoding/json"
	"strconv"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/transports/transporttest"
)

// readTool reads the log run by run with the tool, in pages of 9.
func readTool(t *testing.T, s *transporttest.Scene, after int64) []transporttest.Event {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "transporttest"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.URL + "/mcp", DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer session.Close()
	var all []transporttest.Event
	end := s.End()
	for _, run := range s.Started() {
		for next := strconv.FormatInt(after, 10); next != ""; {
			res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_agent_run_events", Arguments: map[string]any{
				"conversation_id": s.ConversationID, "run_id": run.ID, "after_event_id": json.Number(next), "limit": 9,
			}})
			if err != nil || res.IsError {
				t.Errorf("%s: %+v, %v", run.ID, res, err)
				return nil
			}
			raw, err := json.Marshal(res.StructuredContent)
			if err != nil {
				t.Error(err)
				return nil
			}
			var p page
			if err := json.Unmarshal(raw, &p); err != nil {
				t.Error(err)
				return nil
			}
			all, next = p.add(all)
		}
	}
	return transporttest.Through(end, all)
}
