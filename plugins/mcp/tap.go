package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins/problem"
	"github.com/batonrun/baton/plugins/web"
)

// tap reads a connection's messages before the SDK, for which one odd member is the end of a result, a list or a session.
// It hands results as they are to their exchanges, and to the SDK only as much as the SDK needs.
type tap struct {
	log     *slog.Logger
	secrets *problem.Secrets // what no message repeats
	tasks   *tasks           // of all connections to the server

	mu    sync.Mutex // guards the fields below
	open  map[jsonrpc.ID]*exchange
	stray int  // texts that were no messages
	able  bool // the server executes calls as tasks

	questions int                      // number of questions so far
	pending   map[string]pending       // questions of the server, by their number
	left      map[jsonrpc.ID]*exchange // calls that ended lately without a response
}

func newTap(log *slog.Logger, secrets *problem.Secrets, tasks *tasks) *tap {
	return &tap{log: log, secrets: secrets, tasks: tasks, open: map[jsonrpc.ID]*exchange{}, pending: map[string]pending{}, left: map[jsonrpc.ID]*exchange{}}
}

// begin returns the exchange of a message that is sent now, nil for one without a response.
func (t *tap) begin(ctx context.Context, m jsonrpc.Message) *exchange {
	req, ok := m.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return nil
	}
	x := exchangeOf(ctx)
	x.begin()
	t.mu.Lock()
	defer t.mu.Unlock()
	x.id, x.method = req.ID, req.Method
	if x.task != nil { // the SDK has no member for it
		req.Params = with(req.Params, "task", x.task)
	}
	t.open[req.ID] = x
	return x
}

// with returns an object with another member.
func with(object json.RawMessage, name string, v json.RawMessage) json.RawMessage {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(object, &members) != nil {
		return object
	}
	members[name] = v
	return encoded(members)
}

// end forgets an exchange.
func (t *tap) end(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, x.id)
	delete(t.left, x.id)
}

// answers returns the exchange that a response belongs to. Some servers send its id as a text, or none at all.
func (t *tap) answers(id json.RawMessage, own *exchange) *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := strings.TrimSuffix(text(id), ".0")
	for is, x := range t.open {
		if fmt.Sprint(is.Raw()) == said {
			return x
		}
	}
	for is, x := range t.left {
		if fmt.Sprint(is.Raw()) == said {
			return x
		}
	}
	if own != nil && t.open[own.id] == own && !given(id) {
		return own
	}
	return nil
}

// frame is a message of any kind.
type frame struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// read returns the messages in a text for the SDK. A response without an id belongs to own, which can be nil. What is no
// message is logged.
func (t *tap) read(said []byte, own *exchange) []jsonrpc.Message {
	said = bytes.ToValidUTF8(said, []byte("\uFFFD"))
	var list []json.RawMessage
	if json.Unmarshal(said, &list) != nil {
		list = []json.RawMessage{said}
	}
	var found []jsonrpc.Message
	for _, one := range list {
		if m := t.message(one, own); m != nil {
			found = append(found, m)
		} else {
			t.skip(one)
		}
	}
	return found
}

func (t *tap) message(said json.RawMessage, own *exchange) jsonrpc.Message {
	said = t.secrets.HideCredentials(said)
	var f frame
	if json.Unmarshal(said, &f) != nil {
		return nil
	}
	if given(f.Method) {
		if text(f.Method) == elicitation && given(f.ID) {
			said = t.asks(&f, own)
		}
		m, err := jsonrpc.DecodeMessage(said)
		if err != nil {
			return nil
		}
		return m
	}
	failed := given(f.Error) && (f.Result == nil || !hollow(f.Error))
	if f.Result == nil && !failed || f.Version == nil && (f.ID == nil || own == nil) { // a record of a log can have an id and an error too
		return nil
	}
	x := t.answers(f.ID, own)
	if x == nil && own != nil && failed {
		x = own
	}
	if x == nil {
		return nil
	}
	if failed {
		e := t.fault(f.Error)
		return t.refuse(x, &refusal{code: e.Code, said: e.Message, data: e.Data}, e)
	}
	t.end(x)
	if task := startedTask(f.Result, x.task != nil); task != nil && x.asker != nil {
		t.tasks.begun(x.asker, word(task.TaskID)) // before its first question is read
	}
	x.answer(f.Result)
	if x.method == "initialize" {
		t.initialized(f.Result)
	}
	return &jsonrpc.Response{ID: x.id, Result: plain(x.method, f.Result)}
}

// initialized notes the capabilities that the SDK does not know.
func (t *tap) initialized(result json.RawMessage) {
	var hello struct {
		Capabilities struct{ Tasks json.RawMessage }
	}
	_ = json.Unmarshal(result, &hello)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.able = given(hello.Capabilities.Tasks)
}

// refuse ends an exchange without a result. The response is for the SDK.
func (t *tap) refuse(x *exchange, r *refusal, e *jsonrpc.Error) jsonrpc.Message {
	if r.status == 0 && r.lost(true) {
		r.gone, r.unexecuted = true, true
	}
	t.end(x)
	x.refuse(r)
	if e == nil {
		e = &jsonrpc.Error{Code: -32000, Message: r.Error()}
	}
	return &jsonrpc.Response{ID: x.id, Error: e}
}

// maxStray limits the texts of a connection that are logged because they are no messages.
const maxStray = 20

func (t *tap) skip(said []byte) {
	said = bytes.TrimSpace(said)
	if len(said) == 0 {
		return
	}
	t.mu.Lock()
	t.stray++
	logged := t.stray <= maxStray
	t.mu.Unlock()
	if logged {
		t.log.Warn("the tool server wrote what is no message", "text", clip(t.secrets.Hide(string(said)), 200))
	}
}

// plain returns a result that the SDK can read.
func plain(method string, result json.RawMessage) json.RawMessage {
	switch method {
	case "tools/call":
		return json.RawMessage(`{"content":[]}`)
	case "ping", "tasks/get", "tasks/result", "tasks/update", "tasks/cancel":
		return json.RawMessage(`{}`)
	case "tools/list":
		tools, _ := toolsOf(result)
		for i := range tools { // the SDK makes headers of some annotations in schemas
			tools[i] = wireTool{Name: tools[i].Name, InputSchema: tools[i].InputSchema}
		}
		return encoded(map[string]any{"tools": tools})
	case "initialize":
		if json.Unmarshal(result, new(sdk.InitializeResult)) == nil {
			return result
		}
		return plainHello(result)
	}
	return result
}

// plainHello returns the used members of a response to initialize.
func plainHello(result json.RawMessage) json.RawMessage {
	var hello struct {
		ProtocolVersion json.RawMessage `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
	}
	var able struct {
		Tools struct {
			ListChanged json.RawMessage `json:"listChanged"`
		} `json:"tools"`
	}
	_ = json.Unmarshal(result, &hello)
	_ = json.Unmarshal(hello.Capabilities, &able)
	return encoded(map[string]any{
		"protocolVersion": text(hello.ProtocolVersion), "serverInfo": map[string]string{"name": "", "version": ""},
		"capabilities": map[string]any{"tools": map[string]bool{"listChanged": truth(able.Tools.ListChanged)}},
	})
}

// sentence returns the description of a problem in a response, without secrets.
func (t *tap) sentence(body []byte) string { return problem.Sentence(body, t.secrets.Hide) }

var controls = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)|[\x00-\x08\x0b\x0c\x0e-\x1f]|\ufeff")

// spoken returns the messages in a line of a program, which can have other text around them.
func (t *tap) spoken(line []byte) []jsonrpc.Message {
	whole := bytes.TrimSpace(line)
	if json.Valid(whole) {
		return t.read(whole, nil)
	}
	var found []jsonrpc.Message
	rest := whole
	for {
		at := bytes.IndexAny(rest, "{[")
		if at < 0 {
			break
		}
		rest = rest[at:]
		in := json.NewDecoder(bytes.NewReader(rest))
		var one json.RawMessage
		if in.Decode(&one) != nil {
			at := bytes.Index(rest[1:], []byte(`{"`))
			if at < 0 {
				break
			}
			rest = rest[1+at:]
			continue
		}
		rest = rest[in.InputOffset():]
		if one[0] == '{' {
			if m := t.message(one, nil); m != nil {
				found = append(found, m)
			}
		}
	}
	if found == nil {
		t.skip(whole)
	}
	return found
}

// asks replaces a server's question by one without content, because the SDK refuses odd ones. The task that it names asks, else the
// call in whose stream it came, own. Without these, each call in flight or with a task may have asked.
func (t *tap) asks(f *frame, own *exchange) json.RawMessage {
	p := pending{params: f.Params}
	task := relatedTask(f.Params)
	polled := t.tasks.asking(task)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case task != "":
		p.from = polled
	case own != nil && own.asker != nil:
		p.from = []*asker{own.asker}
	default:
		p.from = polled
		for _, x := range t.open {
			p.maybe(x.asker)
		}
		t.prune()
		for _, x := range t.left {
			p.maybe(x.asker)
		}
	}
	t.questions++ // two streams can have questions of one id
	key := strconv.Itoa(t.questions)
	t.pending[key] = p
	return encoded(map[string]any{
		"jsonrpc": "2.0", "id": f.ID, "method": elicitation, "params": map[string]any{"message": "", "_meta": map[string]string{questionMeta: key}},
	})
}

// leave forgets a call that has ended, after a moment if it has no response: the server may still execute it and ask.
func (t *tap) leave(x *exchange) {
	t.end(x)
	if result, refused, sent := x.outcome(); x.asker != nil && result == nil && refused == nil && sent {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.prune()
		x.left = time.Now()
		t.left[x.id] = x
	}
}

// prune forgets calls that ended some time ago. t.mu is held.
func (t *tap) prune() {
	maps.DeleteFunc(t.left, func(_ jsonrpc.ID, x *exchange) bool { return time.Since(x.left) > parting })
}

// fault is an error of the protocol with members of any type.
func (t *tap) fault(raw json.RawMessage) *jsonrpc.Error {
	var parts struct{ Code, Message, Data json.RawMessage }
	if json.Unmarshal(raw, &parts) != nil || parts.Message == nil {
		return &jsonrpc.Error{Code: -32000, Message: t.sentence(raw), Data: parts.Data}
	}
	code, err := strconv.ParseInt(text(parts.Code), 10, 64)
	if err != nil {
		code = -32000
	}
	message := text(parts.Message)
	if strings.HasPrefix(message, "{") || strings.HasPrefix(message, "[") {
		message = t.sentence(parts.Message)
	}
	return &jsonrpc.Error{Code: code, Message: message, Data: parts.Data}
}

// refusalOf reads an error.
func (t *tap) refusalOf(res *http.Response) *refusal {
	defer func() { _ = res.Body.Close() }()
	body := web.BodyOf(res, endless).Fault()
	var m struct {
		Error struct{ Data json.RawMessage }
	}
	_ = json.Unmarshal(body, &m) // another body has no data
	return &refusal{status: res.StatusCode, said: t.sentence(body), data: m.Error.Data}
}
