package agui_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/runtime/agui"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// encode returns ev as projection p writes it, "" when p leaves it out.
func encode(ev agui.Event, p agui.Projection) string {
	if ev = agui.Project(ev, p); ev == nil {
		return ""
	}
	return string(ev.AppendJSON(nil, p))
}

func TestProject_Goldens(t *testing.T) {
	var got bytes.Buffer
	for _, s := range samples() {
		fmt.Fprintf(&got, "-- %s --\n", s.name)
		for _, p := range projections {
			line := encode(s.ev, p.p)
			if line == "" {
				line = "(left out)"
			}
			fmt.Fprintf(&got, "%-6s %s\n", p.name, line)
		}
	}
	const file = "testdata/projections.txtar"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range gotLines {
		if i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d (run with -update and read the diff)\n got %s", file, i+1, gotLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%s has %d lines, want %d", file, len(wantLines), len(gotLines))
	}
}

func TestAppendJSON_WritesOneLine(t *testing.T) {
	for _, s := range samples() {
		for _, p := range projections {
			line := encode(s.ev, p.p)
			if line == "" {
				continue
			}
			if !json.Valid([]byte(line)) || strings.ContainsAny(line, "\n\r") {
				t.Errorf("%s, %s: not one line of JSON: %s", s.name, p.name, line)
			}
			if !strings.HasPrefix(line, `{"type":"`) {
				t.Errorf("%s, %s: does not begin with the type: %s", s.name, p.name, line)
			}
		}
	}
}

// declared are the top-level members AG-UI 1.0 has, by type, beside those all events have.
var declared = map[agui.Type]string{
	agui.TypeTextMessageStart:        "messageId role name",
	agui.TypeTextMessageContent:      "messageId delta",
	agui.TypeTextMessageEnd:          "messageId",
	agui.TypeToolCallStart:           "toolCallId toolCallName parentMessageId",
	agui.TypeToolCallArgs:            "toolCallId delta",
	agui.TypeToolCallEnd:             "toolCallId",
	agui.TypeToolCallResult:          "messageId toolCallId content role",
	agui.TypeStateSnapshot:           "snapshot",
	agui.TypeStateDelta:              "delta",
	agui.TypeMessagesSnapshot:        "messages",
	agui.TypeActivitySnapshot:        "messageId activityType content replace",
	agui.TypeActivityDelta:           "messageId activityType patch",
	agui.TypeRaw:                     "event source",
	agui.TypeCustom:                  "name value",
	agui.TypeRunStarted:              "threadId runId protocolVersion parentRunId input",
	agui.TypeRunFinished:             "threadId runId result outcome usage",
	agui.TypeRunError:                "message code usage",
	agui.TypeStepStarted:             "stepName",
	agui.TypeStepFinished:            "stepName",
	agui.TypeReasoningStart:          "messageId",
	agui.TypeReasoningMessageStart:   "messageId role",
	agui.TypeReasoningMessageContent: "messageId delta",
	agui.TypeReasoningMessageEnd:     "messageId",
	agui.TypeReasoningEnd:            "messageId",
	agui.TypeReasoningEncryptedValue: "subtype entityId encryptedValue",
	agui.TypeSubagentStarted:         "name description parentSubagentRunId parentToolCallId parentMessageId",
	agui.TypeSubagentFinished:        "result outcome",
	agui.TypeSubagentError:           "message code",
}

func TestProject_StrictHasOnlyDeclaredMembers(t *testing.T) {
	for _, s := range samples() {
		for _, p := range []agui.Projection{agui.AGUI1, agui.AGUI0} {
			ev := agui.Project(s.ev, p)
			if ev == nil || ev.Type() == "FUTURE_EVENT" {
				continue
			}
			allowed := strings.Fields(declared[ev.Type()] + " type timestamp rawEvent metadata")
			if p == agui.AGUI1 {
				allowed = append(allowed, "subagentRunId")
			}
			var got map[string]json.RawMessage
			if err := json.Unmarshal(ev.AppendJSON(nil, p), &got); err != nil {
				t.Fatal(err)
			}
			for name, val := range got {
				if !strings.Contains(" "+strings.Join(allowed, " ")+" ", " "+name+" ") {
					t.Errorf("%s, projection %d: undeclared member %q", s.name, p, name)
				}
				if string(val) == "null" && name != "value" && name != "event" && name != "snapshot" {
					t.Errorf("%s, projection %d: %q is null", s.name, p, name)
				}
			}
		}
	}
}

func TestProject_PublicFitsTheSchema(t *testing.T) {
	const file = "testdata/get_agent_run_events.output.schema.json"
	schema, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	admitted := 0
	for _, s := range samples() {
		line := encode(s.ev, agui.Public)
		if line == "" {
			continue
		}
		admitted++
		page := `{"data":[{"event_id":1,"event":` + line + `}],"page_info":{"self":null,"first":null,"next":null,"prev":null}}`
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v\n%s", s.name, err, line)
		}
	}
	if admitted < 20 {
		t.Errorf("only %d samples are public", admitted)
	}
}

func TestProject_KeepsCommonEvents(t *testing.T) {
	for _, s := range samples() {
		switch s.ev.(type) {
		case agui.TextMessageStart, agui.TextMessageContent, agui.TextMessageEnd, agui.ToolCallStart, agui.ToolCallArgs,
			agui.ToolCallEnd, agui.ToolCallResult, agui.ReasoningMessageContent, agui.StateDelta, agui.Custom:
		default:
			continue
		}
		for _, p := range []agui.Projection{agui.Stored, agui.Seed, agui.AGUI1, agui.AGUI0} {
			if n := testing.AllocsPerRun(10, func() { agui.Project(s.ev, p) }); n != 0 {
				t.Errorf("%s, projection %d: %v allocations", s.name, p, n)
			}
		}
	}
}
