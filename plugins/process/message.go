package process

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/batonrun/baton/plugins"
)

// message is one of JSON-RPC 2.0: a request, a notification, which has no id, or a response, which has no method.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *failure        `json:"error,omitempty"`
}

// MarshalJSON adds what every message has.
func (m message) MarshalJSON() ([]byte, error) {
	type members message
	return json.Marshal(struct {
		Version string `json:"jsonrpc"`
		members
	}{"2.0", members(m)})
}

// failure is the error of a response. Data is there when its message may be shown to clients.
type failure struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Data    *details `json:"data,omitempty"`
}

// details say what failed as a plugins.Error does. The codes waiting, cancelled, stopping and ended stand for the
// errors of package plugins that are named so.
type details struct {
	Code      string `json:"code"`
	Retryable bool   `json:"retryable,omitempty"`
}

// JSON-RPC's codes.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeFailed         = -32000 // of its range for applications
)

var signals = map[string]error{
	"waiting":   plugins.ErrWaiting,
	"cancelled": plugins.ErrCancelled,
	"stopping":  plugins.ErrStopping,
	"ended":     plugins.ErrEnded,
}

// cause is f as plugins say it.
func (f *failure) cause() error {
	switch {
	case f.Data == nil || f.Data.Code == "":
		return errors.New(f.Message)
	case signals[f.Data.Code] != nil:
		return signals[f.Data.Code]
	}
	return &plugins.Error{Code: f.Data.Code, Message: f.Message, Retryable: f.Data.Retryable}
}

// failureOf is err as a program is told of it.
func failureOf(err error) *failure {
	f := &failure{Code: codeFailed, Message: err.Error()}
	for code, signal := range signals {
		if errors.Is(err, signal) {
			f.Data = &details{Code: code}
			return f
		}
	}
	var shown *plugins.Error
	var bad *badParams
	switch {
	case errors.As(err, &shown):
		f.Data = &details{Code: shown.Code, Retryable: shown.Retryable}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errReturned):
		f.Data = &details{Code: "ended"}
	case errors.As(err, &bad):
		f.Code = codeInvalidParams
	case errors.Is(err, errNoMethod):
		f.Code = codeMethodNotFound
	}
	return f
}

// badParams is a mistake of the program's author.
type badParams struct{ reason string }

func (e *badParams) Error() string { return e.reason }

// number is the id of a request of ours.
func number(id int64) json.RawMessage { return strconv.AppendInt(nil, id, 10) }

// encode returns v's JSON. All that is passed here can be encoded.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
