package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// exchange is a request on the wire: whether it was sent, and the server's own words, which the SDK reads strictly or drops.
type exchange struct {
	id     jsonrpc.ID
	method string
	asker  *asker          // nil unless it is a call of a tool
	task   json.RawMessage // asks for a task, nil for none
	left   time.Time       // when the call ended without a response; guarded by the tap's mu

	mu      sync.Mutex // guards the fields below
	sent    bool       // the server may have executed it
	result  json.RawMessage
	refused *refusal
}

type exchangeKey struct{}

// withExchange returns a context for one request, or for a connection's first requests, of which the last remains.
func withExchange(ctx context.Context) (context.Context, *exchange) {
	x := new(exchange)
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// exchangeOf returns the exchange of ctx, or a new one for a request of the SDK's own.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return new(exchange)
}

// begin records that the request is being sent.
func (x *exchange) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent, x.result, x.refused = true, nil, nil
}

func (x *exchange) answer(result json.RawMessage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result = result
	if len(result) == 0 {
		x.result = json.RawMessage("null")
	}
}

func (x *exchange) refuse(r *refusal) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refused, x.sent = r, !r.unexecuted
}

// outcome returns the result or the refusal, or neither if no response has come.
func (x *exchange) outcome() (result json.RawMessage, refused *refusal, sent bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result, x.refused, x.sent
}

// refusal is a response without a result.
type refusal struct {
	status     int   // of HTTP; 0 for an error of the protocol
	code       int64 // of the protocol, 0 for none
	data       json.RawMessage
	said       string // the server's sentence, or ours about a response that is none
	gone       bool   // the server does not know the session
	unexecuted bool   // the server has not executed the request
}

func (r *refusal) Error() string {
	said := r.sentence()
	switch {
	case r.status == 0:
		return said
	case r.status == http.StatusOK:
		return "answered " + said
	case said == "":
		return strings.TrimSpace(fmt.Sprintf("answered %d %s", r.status, http.StatusText(r.status)))
	}
	return fmt.Sprintf("answered %d: %s", r.status, said)
}

// sentence returns the server's sentence with the data of its error, unless the sentence has it.
func (r *refusal) sentence() string {
	data := strings.TrimSpace(text(compact(r.data)))
	switch {
	case !given(r.data) || hollow(r.data) || data == "" || strings.Contains(r.said, data):
		return r.said
	case r.said == "":
		return data
	}
	return r.said + ": " + data
}

// unknown reports whether the address can be one of another transport.
func (r *refusal) unknown() bool {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	return r.status >= 400 && r.status < 500
}

// lostSession matches the errors of servers for a session that they do not know.
var lostSession = regexp.MustCompile(`(?i)\bsession\b.*\b(not found|expired|invalid|unknown|missing|terminated|closed|not exist|no longer|required|not initialized)\b|` +
	`\b(no|invalid|unknown|missing|expired|bad)\b( valid| active)? ?(mcp[- ])?session|\bno transport found\b`)

// lost reports whether the response means that the session is gone. A server that does not know the session executes
// nothing; an internal error, or any other error of the protocol, can come from a tool that has sessions too.
func (r *refusal) lost(session bool) bool {
	words := lostSession.MatchString(r.said)
	switch {
	case r.status == http.StatusNotFound || r.status == http.StatusGone:
		return session || words
	case r.status >= 400 && r.status < 500:
		return words
	case r.status == 0:
		return words && (r.code == jsonrpc.CodeInvalidRequest || r.code == -32001)
	}
	return false
}

// hollow reports whether an error says that there is none.
func hollow(fault json.RawMessage) bool {
	return slices.Contains([]string{"false", "0", `""`, "{}", "[]"}, string(bytes.TrimSpace(fault)))
}
