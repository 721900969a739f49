package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Command is a client's message on a connection for many threads.
type Command struct {
	Op       string
	Ref      json.RawMessage // the reference for the reply, a string or a number; nil for none
	ThreadID string
	RunID    string
	User     string // the run's user, for roles that see others' runs; empty if the run's name is unique
	After    int64  // the event to begin behind, runtime.Latest for the log's end
	body     []byte
	request  request
}

// ops are the operations, each with its required member, if any.
var ops = []struct{ op, needs string }{
	{"subscribe", "threadId"},
	{"unsubscribe", "threadId"},
	{"watch", ""},
	{"unwatch", ""},
	{"run", ""},
	{"append", "runId"},
	{"cancel", "runId"},
	{"resume", "runId"},
	{"event", "runId"},
}

// Ops are the ops that a Command may have.
func Ops() []string {
	names := make([]string, len(ops))
	for i, o := range ops {
		names[i] = o.op
	}
	return names
}

// maxRef is how long a ref may be, in bytes of JSON.
const maxRef = 256

// DecodeCommand reads the members that all commands share; the Command's methods read the others. It returns the Ref even when
// another member is refused.
func DecodeCommand(body []byte) (Command, error) {
	r := read(body)
	cmd := Command{Ref: r.ref(), body: body}
	cmd.Op = r.text("op")
	cmd.ThreadID, cmd.RunID = r.name("threadId"), r.name("runId")
	cmd.After = r.cursor("afterEventId")
	if r.err == nil {
		cmd.complete(&r)
	}
	cmd.request = r
	return cmd, r.err
}

// complete refuses an unknown op, and one without its required member.
func (c *Command) complete(r *request) {
	names := Ops()
	at := slices.Index(names, c.Op)
	switch last := len(names) - 1; {
	case at < 0:
		r.err = refuseMember("op", "unknown_op", "op must be %s or %s", strings.Join(names[:last], ", "), names[last])
	case ops[at].needs == "threadId":
		r.need("threadId", c.ThreadID)
	case ops[at].needs == "runId":
		r.need("runId", c.RunID)
		c.User = r.name("user")
	}
}

// Run reads the request of a command that starts a run. Two commands that differ in nothing but their ref are
// the same request.
func (c *Command) Run() (RunRequest, error) {
	req, err := c.request.run()
	if err != nil {
		return req, err
	}
	if req.RunID == "" {
		req.BodyHash = Hash(c.body)
		return req, nil
	}
	req.BodyHash = hashOf(c.request.values, "op", "ref")
	return req, nil
}

// hashOf identifies members by their names and bytes, but for some.
func hashOf(members map[string]json.RawMessage, but ...string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(but, name) {
			fmt.Fprintf(sum, "%q:%d:", name, len(members[name]))
			sum.Write(members[name])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Append reads the message of a command that appends one.
func (c *Command) Append() (runtime.AppendRequest, error) { return c.request.message() }

// Resume reads the answers of a command that gives some.
func (c *Command) Resume() ([]agui.ResumeEntry, error) { return c.request.answers() }

// Event reads the event of a command that sends one.
func (c *Command) Event() (runtime.EventRequest, error) {
	req := runtime.EventRequest{Name: c.request.name("name")}
	req.Payload, _ = c.request.has("payload")
	return req, c.request.err
}

func (r *request) ref() json.RawMessage {
	val, ok := r.has("ref")
	if !ok || r.err != nil {
		return nil
	}
	if first := val[0]; len(val) > maxRef || first != '"' && first != '-' && (first < '0' || first > '9') {
		r.err = refuseMember("ref", codeRequest, "ref must be a string or a number of at most %d bytes", maxRef)
		return nil
	}
	return bytes.Clone(val)
}

// cursor returns a member that must be the id of an event or latest, 0 when it is absent.
func (r *request) cursor(name string) int64 {
	val, ok := r.has(name)
	if !ok || r.err != nil {
		return 0
	}
	if string(val) == `"latest"` {
		return runtime.Latest
	}
	id, err := strconv.ParseUint(string(val), 10, 63)
	if err != nil {
		r.err = refuseMember(name, "invalid_cursor", `%s must be the id of an event, a number, or "latest"`, name)
	}
	return int64(id)
}

// need refuses a request without a name that it must have.
func (r *request) need(name, val string) {
	if val == "" {
		r.err = Refuse(codeRequest, "%s is missing", name)
	}
}
