package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Notice is one thing that a monitor shows. Notices are shared and never change.
type Notice struct {
	epoch   string
	offset  int64
	run     *watched
	agent   string
	kind    kind
	rec     *Record       // of the event that AGUIView shows; nil when there is none
	call    *call         // of a tool's notice; nil when its start is not known
	failure string        // with failed
	took    time.Duration // of an execution or a run that has ended
	index   int           // of the agent that turned
	status  string        // what it turned to; "" when none did
	frames  [views]atomic.Pointer[[]byte]
}

// kind says what EventsView shows of a notice.
type kind uint8

const (
	silent kind = iota
	token
	toolStart
	toolEnd
	complete
	failed
)

// kindNames are the kinds on the wire.
var kindNames = [...]string{
	token: "token", toolStart: "tool_call_start", toolEnd: "tool_call_end", complete: "agent_complete", failed: "error",
}

// turns makes n tell that an agent's state has changed.
func (n *Notice) turns(index int, status string) { n.index, n.status = index, status }

// SSE returns the notice's frame in view v, which must be that of the Monitor it came from. It is encoded once
// and shared by all readers: do not change it.
func (n *Notice) SSE(v View) []byte {
	if f := n.frames[v].Load(); f != nil {
		return *f
	}
	f := appendID(make([]byte, 0, 256), n.epoch, n.offset)
	switch {
	case v == EventsView:
		f = n.appendEvent(f)
	case n.status != "":
		f = n.appendTurn(f)
	default:
		f = n.appendAGUI(f)
	}
	n.frames[v].Store(&f)
	return f
}

// Snapshot returns the frame with which AGUIView begins: the states of all agents.
func (w *Monitor) Snapshot() []byte {
	agents := append([]byte(`"agents":`), mustJSON(w.agents)...)
	f := appendHead(appendID(nil, w.f.epoch, w.after), string(agui.TypeStateSnapshot))
	f = append(append(appendMember(f, "type", string(agui.TypeStateSnapshot)), `,"snapshot":{`...), agents...)
	return append(append(append(f, "},"...), agents...), "}\n\n"...)
}

func appendID(dst []byte, epoch string, offset int64) []byte {
	dst = append(append(dst, "id: "...), epoch...)
	return append(strconv.AppendInt(append(dst, '-'), offset, 10), '\n')
}

// appendHead appends the start of a frame, up to that of its data, an object.
func appendHead(dst []byte, event string) []byte {
	return append(append(append(dst, "event: "...), event...), "\ndata: {"...)
}

// appendMember appends a string to an object that has been begun.
func appendMember(dst []byte, name, value string) []byte {
	return agui.AppendString(appendKey(dst, name), value)
}

// appendMillis appends a duration to an object that has been begun.
func appendMillis(dst []byte, d time.Duration) []byte {
	return strconv.AppendInt(appendKey(dst, "duration_ms"), d.Milliseconds(), 10)
}

func appendKey(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, '"'), name...), `":`...)
}

// appendRun appends the members that say which run a frame belongs to.
func (n *Notice) appendRun(dst []byte) []byte {
	return appendMember(appendMember(dst, "run_id", n.run.runID), "thread_id", n.run.threadID)
}

// appendEvent appends the notice as EventsView shows it.
func (n *Notice) appendEvent(dst []byte) []byte {
	dst = appendMember(appendHead(dst, kindNames[n.kind]), "agent", n.agent)
	switch n.kind {
	case token:
		dst = appendMember(dst, "text", n.rec.Event.(agui.TextMessageContent).Delta)
	case toolStart:
		dst = append(appendKey(appendMember(dst, "tool", n.call.tool), "args"), n.call.arguments()...)
	case toolEnd:
		ev := n.rec.Event.(agui.ToolCallResult)
		dst = appendMember(appendMember(dst, "tool", n.toolOf(ev)), "result", ev.Content)
	case complete:
		dst = appendMillis(dst, n.took)
	case failed:
		dst = appendMember(dst, "error", n.failure)
	}
	return append(n.appendRun(dst), "}\n\n"...)
}

// arguments are the call's as an object on one line. What a model has sent instead of one, or more of it than is
// kept, stands in the object's member arguments as text.
func (c *call) arguments() []byte {
	text := strings.ToValidUTF8(strings.Join(c.args, ""), "\uFFFD")
	var object bytes.Buffer
	switch trimmed := strings.TrimSpace(text); {
	case trimmed == "":
		return []byte("{}")
	case trimmed[0] == '{' && json.Compact(&object, []byte(trimmed)) == nil:
		return object.Bytes()
	}
	return append(appendMember([]byte{'{'}, "arguments", clip(text, maxArgs)), '}')
}

func (n *Notice) toolOf(ev agui.ToolCallResult) string {
	if n.call != nil {
		return n.call.tool
	}
	if ev.Output != nil {
		return ev.Output.ToolName
	}
	return ""
}

// appendTurn appends the change of an agent's state, as a patch of the state that Snapshot gives.
func (n *Notice) appendTurn(dst []byte) []byte {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/agents/%d/status","value":%q}]`, n.index, n.status)
	return agui.AppendSSE(dst, 0, agui.StateDelta{Base: agui.Base{Agent: n.agent}, Delta: json.RawMessage(patch)}, agui.Seed)
}

// appendAGUI appends the notice's event in the seed projection, with the names that the monitor's own clients
// know beside AG-UI's.
func (n *Notice) appendAGUI(dst []byte) []byte {
	base := n.rec.Event.Common()
	base.Agent = n.agent
	ev := agui.Project(n.rec.Event.WithCommon(base), agui.Seed)
	dst = append(append(append(dst, "event: "...), ev.Type()...), "\ndata: "...)
	dst = ev.AppendJSON(dst, agui.Seed)
	dst = n.appendRun(dst[:len(dst)-1]) // before the closing brace
	if e, ok := ev.(agui.TextMessageContent); ok {
		dst = appendMember(dst, "text", e.Delta)
	}
	if n.rec.terminal {
		dst = appendMillis(dst, n.took)
	}
	return append(dst, "}\n\n"...)
}
