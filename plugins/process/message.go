package process

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/batonrun/baton/plugins"
)

// message is a JSON-RPC 2.0 message: a request, a notification without id, or a response without method.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *failure        `json:"error,omitempty"`

	died bool // the program has ended; there is no message
}

// failed returns the error of a response, nil for none.
func (m *message) failed() error {
	if m.Error == nil {
		return nil
	}
	return m.Error.cause()
}

// MarshalJSON adds the version.
func (m message) MarshalJSON() ([]byte, error) {
	type members message
	return json.Marshal(struct {
		Version string `json:"jsonrpc"`
		members
	}{"2.0", members(m)})
}

// failure is the error of a response. Data is set if clients may see the message.
type failure struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Data    *details `json:"data,omitempty"`
}

// UnmarshalJSON accepts anything: the message of an error of another form is all of it.
func (f *failure) UnmarshalJSON(raw []byte) error {
	type members failure
	var of members
	if json.Unmarshal(raw, &of) != nil || of.Message == "" {
		of = members{Code: codeFailed, Message: string(raw)}
	}
	*f = failure(of)
	return nil
}

// details has the fields of a plugins.Error. The codes waiting, cancelled, stopping and ended stand for the errors of
// package plugins with these names.
type details struct {
	Code      string `json:"code"`
	Retryable bool   `json:"retryable,omitempty"`
}

// Error codes of JSON-RPC.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeFailed         = -32000 // from the range for applications
)

var signals = map[string]error{
	"waiting":   plugins.ErrWaiting,
	"cancelled": plugins.ErrCancelled,
	"stopping":  plugins.ErrStopping,
	"ended":     plugins.ErrEnded,
}

// cause returns f as an error for package plugins.
func (f *failure) cause() error {
	switch {
	case f.Data == nil || f.Data.Code == "":
		return errors.New(f.Message)
	case signals[f.Data.Code] != nil:
		return signals[f.Data.Code]
	}
	return &plugins.Error{Code: f.Data.Code, Message: f.Message, Retryable: f.Data.Retryable}
}

// failureOf returns err in the form for the program.
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

// badParams is an error of the program's author.
type badParams struct{ reason string }

func (e *badParams) Error() string { return e.reason }

// number returns the id of one of our requests.
func number(id int64) json.RawMessage { return strconv.AppendInt(nil, id, 10) }

// encode returns v's JSON, which always exists for our types.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
