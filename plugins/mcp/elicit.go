package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

const elicitation = "elicitation/create" // the request by which a server asks a person

// asker puts the questions of a server during one call to a person. A missing answer ends the call, which is made again with the
// recorded answers. A question is known by its text, its schema and the number of equal ones before it in the call. A task that
// repeats a request gets the same answer.
type asker struct {
	call *plugins.Call
	tool *tool
	end  context.CancelCauseFunc // of the call

	responses sdk.InputResponseMap // to the questions in the latest result, which the next request has
	state     string               // which that result told to repeat
	heard     map[string]bool      // acknowledged requests of the task, by their names and hashes

	mu    sync.Mutex // guards the fields below
	waits bool       // an answer is missing
	memory
	told []string // why questions were declined without a person
	sure bool     // one of them was the call's, and not another's that was in flight
}

// memory is a call's record of its task and its questions. Keep stores it while the task runs.
type memory struct {
	Task  string            `json:"task,omitempty"`
	Asked map[string]int    `json:"asked,omitempty"` // number of questions by their hash
	Keys  map[string]string `json:"keys,omitempty"`  // of answered requests of the task, by their names and hashes
}

func newMemory() memory { return memory{Asked: map[string]int{}, Keys: map[string]string{}} }

// remember stores the record.
func (a *asker) remember() error {
	a.mu.Lock()
	kept := encoded(&a.memory)
	a.mu.Unlock()
	return a.call.Keep(kept)
}

func (a *asker) hasTask() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Task != ""
}

// forget makes the call begin anew.
func (a *asker) forget() error {
	a.mu.Lock()
	a.memory, a.heard = newMemory(), map[string]bool{}
	a.mu.Unlock()
	return a.call.Keep(nil)
}

// wireQuestion is a question with members of any type.
type wireQuestion struct {
	Mode            json.RawMessage `json:"mode"`
	Message         json.RawMessage `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema"`
	URL             json.RawMessage `json:"url"`
}

// questionOf reads a question. Its key is that of all questions with its text and schema. A page to open has the answer {}.
func (t *tool) questionOf(raw json.RawMessage) (q agui.Interrupt, key string, page bool) {
	var w wireQuestion
	_ = json.Unmarshal(t.server.secrets.HideJSON(raw), &w)
	q.Message = cmp.Or(clip(word(w.Message), maxMessage), fmt.Sprintf("The tool %s asks for input", t.name))
	q.ResponseSchema = json.RawMessage(`{"type":"object"}`)
	if len(w.RequestedSchema) > 0 && w.RequestedSchema[0] == '{' {
		q.ResponseSchema = compact(w.RequestedSchema)
	}
	key = fmt.Sprintf("%x", sha256.Sum256([]byte(q.Message+"\x00"+string(q.ResponseSchema))))
	if url := word(w.URL); word(w.Mode) == "url" || url != "" {
		q.Message += "\n" + url
		q.Metadata = encoded(map[string]string{"kind": "question", "toolName": t.info.Name, "url": url})
		return q, key, true
	}
	return q, key, false
}

// key returns the key of a question. name is that of the request which a result has for it, "" for none.
func (a *asker) key(name, hash string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	hash = hash[:32]
	again := a.Task != "" && name != ""
	if key := a.Keys[hash+name]; again && key != "" {
		return key
	}
	a.Asked[hash]++
	key := fmt.Sprintf("%s-%d", hash, a.Asked[hash])
	if again {
		a.Keys[hash+name] = key
	}
	return key
}

// ask returns the response to a question. See key for name.
func (a *asker) ask(name string, raw json.RawMessage) *sdk.ElicitResult {
	q, hash, page := a.tool.questionOf(raw)
	if a.waiting() {
		return &sdk.ElicitResult{Action: "cancel"}
	}
	answer, err := a.call.Ask(a.key(name, hash), q)
	if err == nil && a.hasTask() {
		err = a.remember() // before the server can go on to an equal question
	}
	switch {
	case errors.Is(err, plugins.ErrWaiting):
		a.wait()
		return &sdk.ElicitResult{Action: "cancel"}
	case err != nil:
		why := "the question could not be recorded"
		if shown, ok := errors.AsType[*plugins.Error](err); ok {
			why = shown.Message
		}
		a.decline(raw, why, true)
		return &sdk.ElicitResult{Action: "decline"}
	case answer.Cancelled:
		return &sdk.ElicitResult{Action: "decline"}
	case page:
		return &sdk.ElicitResult{Action: "accept"}
	}
	var content map[string]json.RawMessage // digits stay as they are
	_ = json.Unmarshal(answer.Payload, &content)
	res := &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}
	for name, v := range content {
		res.Content[name] = v
	}
	return res
}

// wait ends the call. The server has a moment to end it first, so that its later questions are not taken for those of another.
func (a *asker) wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = true
	time.AfterFunc(parting, func() { a.end(plugins.ErrWaiting) })
}

func (a *asker) waiting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waits
}

// parting is the time in which a server should end a call that has no answer or was cancelled.
const parting = 5 * time.Second

const (
	maxDeclined = 5   // declined questions of a call in the model's result
	maxTold     = 500 // bytes of such a question, and of the reason
)

// decline records why a question got no answer, for the model. sure is false if another call may have asked it.
func (a *asker) decline(raw json.RawMessage, why string, sure bool) {
	q, _, _ := a.tool.questionOf(raw)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sure = a.sure || sure
	told := fmt.Sprintf("The tool asked a person %q and was declined. %s", clip(q.Message, maxTold), clip(a.tool.server.secrets.Hide(why), maxTold))
	if len(a.told) < maxDeclined && !slices.Contains(a.told, told) {
		a.told = append(a.told, told)
	}
}

// declined returns why questions were declined, "" for none, and whether this call has asked them for certain.
func (a *asker) declined() (told string, sure bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.told, "\n"), a.sure
}

// asksFor returns the questions in a result of the protocols since 2026-07-28, nil for a result without any.
func (a *asker) asksFor(result json.RawMessage) map[string]json.RawMessage {
	var res struct {
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		RequestState  json.RawMessage            `json:"requestState"`
	}
	_ = json.Unmarshal(result, &res)
	a.state = word(res.RequestState)
	return res.InputRequests
}

// wireRequest is a request in a result.
type wireRequest struct {
	Method json.RawMessage `json:"method"`
	Params json.RawMessage `json:"params"`
}

// fulfil asks all questions of a result, and returns the responses.
func (a *asker) fulfil(requests map[string]json.RawMessage) sdk.InputResponseMap {
	responses := sdk.InputResponseMap{}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		var r wireRequest
		_ = json.Unmarshal(requests[name], &r)
		if method := word(r.Method); method != elicitation {
			a.decline(r.Params, fmt.Sprintf("It wants %s, which Baton does not offer", method), true)
			continue
		}
		responses[name] = a.ask(name, r.Params)
	}
	return responses
}

// codeOpenPage is the error of a call before which a person has to open pages.
const codeOpenPage = -32042

// opened asks a person to open the pages that a refusal names. It reports whether that was done.
func (a *asker) opened(r *refusal) bool {
	var data struct{ Elicitations []json.RawMessage }
	if r.code != codeOpenPage || json.Unmarshal(r.data, &data) != nil || len(data.Elicitations) == 0 {
		return false
	}
	done := true
	for _, page := range data.Elicitations {
		done = a.ask("", page).Action == "accept" && done
	}
	return done
}

// pending is a question that the SDK is about to pass to elicited.
type pending struct {
	params json.RawMessage
	from   []*asker // the calls that may have asked it
}

// maybe adds a call that may have asked.
func (p *pending) maybe(a *asker) {
	if a != nil && !slices.Contains(p.from, a) {
		p.from = append(p.from, a)
	}
}

// relatedTask returns the id of the task that asks, "" if the question names none.
func relatedTask(params json.RawMessage) string {
	var q struct {
		Meta struct {
			Task struct {
				TaskID json.RawMessage `json:"taskId"`
			} `json:"io.modelcontextprotocol/related-task"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(params, &q)
	return word(q.Meta.Task.TaskID)
}

const questionMeta = "baton/question"

// elicited answers a server's question, which is that of a call in flight.
func (c *connection) elicited(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	key, _ := req.Params.Meta[questionMeta].(string)
	c.tap.mu.Lock()
	p, ok := c.tap.pending[key]
	delete(c.tap.pending, key)
	c.tap.mu.Unlock()
	switch {
	case !ok:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "unknown question"}
	case len(p.from) == 1:
		return p.from[0].ask("", p.params), nil
	}
	for _, a := range p.from {
		a.decline(p.params, "Several calls were in flight, and the server did not say which of them asks; make this call alone", false)
	}
	return &sdk.ElicitResult{Action: "decline"}, nil
}

// unanswered returns the requests of a task without the acknowledged ones.
func (a *asker) unanswered(requests map[string]json.RawMessage) map[string]json.RawMessage {
	left := maps.Clone(requests)
	maps.DeleteFunc(left, func(name string, raw json.RawMessage) bool { return a.heard[a.identity(name, raw)] })
	return left
}

// identity distinguishes the requests of a task.
func (a *asker) identity(name string, raw json.RawMessage) string {
	var r wireRequest
	_ = json.Unmarshal(raw, &r)
	_, hash, _ := a.tool.questionOf(r.Params)
	return hash + name
}
