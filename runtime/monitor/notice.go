package monitor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/tail"
)

// Notice is one entry of a feed. Readers share notices, which never change.
type Notice struct {
	epoch   string
	offset  int64
	run     *watched
	agent   string
	kind    kind
	rec     *tail.Record  // the event for AGUIView; nil if there is none
	call    *call         // of a tool's notice; nil if its start was not seen
	failure string        // with failed
	took    time.Duration // duration of an ended execution or run
	index   int           // of the agent whose state changed
	status  string        // its new state; "" if none changed
	forms   [views]atomic.Pointer[form]
}

// form is a notice in one view.
type form struct {
	name agui.Type
	json []byte
}

// kind is a notice's type in EventsView.
type kind uint8

const (
	silent kind = iota
	token
	toolStart
	toolEnd
	complete
	failed
)

var kindNames = [...]agui.Type{
	token: "token", toolStart: "tool_call_start", toolEnd: "tool_call_end", complete: "agent_complete", failed: "error",
}

// turns makes n report an agent's new state.
func (n *Notice) turns(index int, status string) { n.index, n.status = index, status }

// ID returns the notice's id for Query.After.
func (n *Notice) ID() string { return noticeID(n.epoch, n.offset) }

func noticeID(epoch string, offset int64) string { return epoch + "-" + strconv.FormatInt(offset, 10) }

// JSON returns the notice in the view of its Monitor, as an object on one line. All readers share the bytes: do not
// change them.
func (n *Notice) JSON(v View) []byte { return n.form(v).json }

// Type returns the notice's type in view v.
func (n *Notice) Type(v View) agui.Type { return n.form(v).name }

func (n *Notice) form(v View) *form {
	if f := n.forms[v].Load(); f != nil {
		return f
	}
	f := new(form)
	switch {
	case v == EventsView:
		f.name, f.json = kindNames[n.kind], n.event()
	case n.status != "":
		f.name, f.json = agui.TypeStateDelta, n.turn()
	default:
		f.name, f.json = n.agui()
	}
	n.forms[v].Store(f)
	return f
}

// Snapshot returns AGUIView's first event as JSON, a STATE_SNAPSHOT with the states of all agents.
func (w *Monitor) Snapshot() []byte {
	states, _ := json.Marshal(w.agents) // strings always encode
	agents := append([]byte(`"agents":`), states...)
	dst := append(appendMember([]byte{'{'}, "type", string(agui.TypeStateSnapshot)), `,"snapshot":{`...)
	return append(append(append(append(dst, agents...), "},"...), agents...), '}')
}

// appendMember appends a string member to an open object.
func appendMember(dst []byte, name, value string) []byte {
	return agui.AppendString(appendKey(dst, name), value)
}

// appendMillis appends a duration to an open object.
func appendMillis(dst []byte, d time.Duration) []byte {
	return strconv.AppendInt(appendKey(dst, "duration_ms"), d.Milliseconds(), 10)
}

func appendKey(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, '"'), name...), `":`...)
}

// appendRun appends the members that identify the frame's run.
func (n *Notice) appendRun(dst []byte) []byte {
	return appendMember(appendMember(dst, "run_id", n.run.runID), "thread_id", n.run.threadID)
}

// event encodes the notice for EventsView.
func (n *Notice) event() []byte {
	dst := appendMember(append(make([]byte, 0, 192), '{'), "agent", n.agent)
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
	return append(n.appendRun(dst), '}')
}

// arguments returns the call's arguments as an object on one line. Other values, or truncated arguments, become the
// text of a member named arguments.
func (c *call) arguments() []byte {
	text := strings.ToValidUTF8(strings.Join(c.args, ""), "\uFFFD")
	var object bytes.Buffer
	switch trimmed := strings.TrimSpace(text); {
	case trimmed == "":
		return []byte("{}")
	case trimmed[0] == '{' && json.Compact(&object, []byte(trimmed)) == nil:
		return object.Bytes()
	}
	return append(appendMember([]byte{'{'}, "arguments", strings.ToValidUTF8(text[:min(len(text), maxArgs)], "")), '}')
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

// turn encodes an agent's new state as a patch of Snapshot's state.
func (n *Notice) turn() []byte {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/agents/%d/status","value":%q}]`, n.index, n.status)
	return agui.StateDelta{Base: agui.Base{Agent: n.agent}, Delta: json.RawMessage(patch)}.AppendJSON(nil, agui.Seed)
}

// agui encodes the notice's event in the seed projection, with the additional members that monitor clients expect.
func (n *Notice) agui() (agui.Type, []byte) {
	t, event := n.rec.Type(agui.Seed), n.rec.JSON(agui.Seed)
	if base := n.rec.Event.Common(); base.Agent != n.agent {
		base.Agent = n.agent
		event = agui.Project(n.rec.Event.WithCommon(base), agui.Seed).AppendJSON(nil, agui.Seed)
	}
	dst := append(make([]byte, 0, len(event)+128), event[:len(event)-1]...) // up to the closing brace
	dst = n.appendRun(dst)
	if e, ok := n.rec.Event.(agui.TextMessageContent); ok {
		dst = appendMember(dst, "text", e.Delta)
	}
	if n.rec.Terminal() {
		dst = appendMillis(dst, n.took)
	}
	return t, append(dst, '}')
}
