package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/agui"
)

func TestAppendSSE(t *testing.T) {
	ev := agui.TextMessageContent{Base: agui.Base{RunID: "r"}, MessageID: "m", Delta: "a\nb"}
	got := string(agui.AppendSSE([]byte("x"), 7, ev, agui.AGUI1))
	want := "xid: 7\nevent: TEXT_MESSAGE_CONTENT\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"a\\nb\"}\n\n"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := string(agui.AppendSSE(nil, 0, ev, agui.AGUI1)); !strings.HasPrefix(got, "event: ") {
		t.Errorf("an event without id: got %q", got)
	}
	if got := agui.AppendSSE(nil, 7, agui.Raw{}, agui.Public); len(got) != 0 {
		t.Errorf("an event that public leaves out: got %q", got)
	}
	sub := agui.SubagentError{Base: named(), Message: "x"}
	if got := string(agui.AppendSSE(nil, 7, sub, agui.AGUI0)); !strings.Contains(got, "event: STEP_FINISHED\n") {
		t.Errorf("the event line must name the projected type: got %q", got)
	}
}

func TestAppendSSE_EscapesLineBreaks(t *testing.T) {
	b := agui.Base{Metadata: json.RawMessage("{\n\"a\":\r\n1}"), RawEvent: json.RawMessage("{\n")}
	got := string(agui.AppendSSE(nil, 1, agui.StepStarted{Base: b, StepName: "s"}, agui.AGUI1))
	if want := `data: {"type":"STEP_STARTED","stepName":"s","metadata":{"a":1},"rawEvent":null}` + "\n\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q\nwant suffix %q", got, want)
	}
}

func TestAppendSSE_DoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	for _, ev := range []agui.Event{
		agui.TextMessageContent{Base: base(), MessageID: "0190b7a2-0000-7000-8000-000000000001", Delta: "he said \"hé\"\n"},
		agui.ToolCallArgs{Base: base(), ToolCallID: "c-1", Delta: `{"q":1}`},
		agui.TextMessageStart{Base: rich(), MessageID: "m", Stage: "draft"},
		agui.StateDelta{Base: base(), Delta: json.RawMessage(`[{"op":"remove","path":"/n"}]`)},
		agui.TextMessageContent{Base: rich(), MessageID: "m", Delta: "x"},
	} {
		for _, p := range []agui.Projection{agui.Stored, agui.Seed, agui.AGUI1, agui.AGUI0, agui.Public} {
			if n := testing.AllocsPerRun(100, func() { buf = agui.AppendSSE(buf[:0], 12345, ev, p) }); n != 0 && (p != agui.Public || ev.Type() != agui.TypeStateDelta) {
				t.Errorf("%s in projection %d: %v allocations", ev.Type(), p, n)
			}
		}
	}
}

// frame is an SSE reader's event.
type frame struct{ id, event, data string }

// parseSSE reads a stream as the HTML standard says, line by line.
func parseSSE(stream []byte) (frames []frame) {
	var f frame
	var data []string
	for line := range bytes.SplitSeq(bytes.ReplaceAll(bytes.ReplaceAll(stream, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n")), []byte("\n")) {
		if len(line) == 0 {
			if data != nil {
				f.data = strings.Join(data, "\n")
				frames = append(frames, f)
			}
			f, data = frame{}, nil
			continue
		}
		field, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			data = append(data, value)
		}
	}
	return frames
}

func FuzzSSE(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.ev.AppendJSON(nil, agui.Stored), int64(7))
	}
	f.Add([]byte("{\"type\":\"CUSTOM\",\"name\":\"a\",\"value\":\"\u2028\\u000d\\n\"}"), int64(1))
	f.Add([]byte(`{"type":"ACTIVITY_DELTA","messageId":"a","patch":[],"Type":"plan"}`), int64(1))
	f.Add([]byte(`{"type":"STEP_FINISHED","stepName":"a","more":1E999}`), int64(1))
	f.Fuzz(func(t *testing.T, data []byte, id int64) {
		ev, err := agui.Decode(data)
		if err != nil {
			return
		}
		for _, p := range projections {
			shown := agui.Project(ev, p.p)
			stream := agui.AppendSSE(nil, id, ev, p.p)
			stream = agui.AppendSSE(stream, id, agui.StepStarted{StepName: "next"}, agui.AGUI1)
			if !utf8.Valid(stream) {
				t.Fatalf("%s: not UTF-8: %q", p.name, stream)
			}
			frames := parseSSE(stream)
			if shown == nil {
				if len(frames) != 1 {
					t.Fatalf("%s: got %d frames of an event left out", p.name, len(frames)-1)
				}
				continue
			}
			if len(frames) != 2 {
				t.Fatalf("%s: got %d frames, want 2: %q", p.name, len(frames), stream)
			}
			wantID := strconv.FormatInt(id, 10)
			if id == 0 {
				wantID = ""
			}
			got := frames[0]
			var body map[string]json.RawMessage // a struct would take a member "Type" for the type
			var kind string
			if err := errors.Join(json.Unmarshal([]byte(got.data), &body), json.Unmarshal(body["type"], &kind)); err != nil {
				t.Fatalf("%s: %v: %q", p.name, err, got.data)
			}
			if got.id != wantID || got.event != kind || got.event != string(shown.Type()) {
				t.Fatalf("%s: got id %q, event %q, type %q; want id %q, type %q", p.name, got.id, got.event, kind, wantID, shown.Type())
			}
		}
	})
}

func BenchmarkAppendSSE(b *testing.B) {
	bs := base()
	bs.ThreadID, bs.RunID = "0190b7a2-0000-7000-8000-00000000000a", "0190b7a2-0000-7000-8000-00000000000b"
	var ev agui.Event = agui.TextMessageContent{Base: bs, MessageID: "0190b7a2-0000-7000-8000-000000000001", Delta: " token"}
	for _, p := range projections {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 4096)
			for b.Loop() {
				buf = agui.AppendSSE(buf[:0], 123456, ev, p.p)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}
