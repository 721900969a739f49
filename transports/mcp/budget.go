package mcp

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	holds "github.com/batonrun/baton/transports/budget"
	"github.com/batonrun/baton/transports/wire"
)

// maxAnswers is how large the answers to one request may be together, but for the last that began below it: they are kept
// until all are there.
const maxAnswers = 16 << 20

// budgetKey is the context's key of the *budget of a request over HTTP.
type budgetKey struct{}

// budget is the number of bytes that the answers to one request may still have. Its calls are answered one after the other, so that no more
// than one answer is made beside those that are counted.
type budget struct {
	began   atomic.Bool                                                 // the message that was counted with the request has come
	reading func(context.Context) (context.Context, context.CancelFunc) // ends a context when the request's client has left, too

	mu      sync.Mutex // guards the fields below, and is held while a call is answered
	left    int
	held    *holds.Hold // for the request and the answers
	answers int         // bytes of those that may be large
	counted int         // of which held has so many
}

// grow counts an answer with raw, once they all are as large as the server counts them from. b.mu is held.
func (b *budget) grow(raw []byte) error {
	all := b.answers + size(raw)
	if all > transports.LargeAnswer {
		if err := b.held.Grow(all - b.counted); err != nil {
			return err
		}
		b.counted = all
	}
	b.answers = all
	return nil
}

// budget returns that of the request c, to be released once it is answered.
func (t Transport) budget(c *fiber.Ctx) (b *budget, release func()) {
	b, release = &budget{left: maxAnswers, held: new(holds.Hold)}, func() {}
	if t.Streams != nil {
		b.held, release = t.Streams.HoldOf(c)
	}
	b.began.Store(transports.OverRate(c)) // nothing was counted with it
	client := transports.Reading(c)
	b.reading = func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(client, func() { cancel(context.Cause(client)) })
		return ctx, func() {
			stop()
			cancel(nil)
		}
	}
	return b, release
}

// cancelTool is the tool whose calls are never rate limited.
const cancelTool = "cancel_agent_run"

// mayCancel reports whether a request may have a cancel among its messages. Over the limit of its sender, counted refuses the others.
func mayCancel(body []byte) bool { return bytes.Contains(body, []byte(cancelTool)) }

func isCancel(req sdk.Request) bool {
	call, ok := req.GetParams().(*sdk.CallToolParamsRaw)
	return ok && call.Name == cancelTool
}

// counted has each message of a request but the first count as a request of its own. Those over the limit of their sender are
// refused one by one, but for cancels.
func (t Transport) counted(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		b, ok := ctx.Value(budgetKey{}).(*budget)
		if ok && b.began.Swap(true) && t.Streams != nil {
			who, _ := ctx.Value(callerKey{}).(runtime.Caller)
			if refusal, over := errors.AsType[*runtime.Error](t.Streams.Rates.Take(who)); over && !isCancel(req) {
				return nil, &jsonrpc.Error{Code: codeRefused, Message: refusal.Detail}
			}
		}
		return next(ctx, method, req)
	}
}

// codeRefused is JSON-RPC's code of a message that is refused before it is looked at.
const codeRefused = -32000

// budgeted answers a call within the budget of its request.
func budgeted(ctx context.Context, answer func() ([]byte, error)) ([]byte, error) {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if !ok { // one message at a time, whose client takes each answer before the next
		return answer()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left <= 0 {
		return nil, errAnswers
	}
	raw, err := answer()
	b.left -= len(raw)
	return raw, err
}

// read answers a call that only reads, when it is its caller's turn, and while the client waits.
func (t Transport) read(ctx context.Context, who runtime.Caller, answer func(context.Context) ([]byte, error)) ([]byte, error) {
	if t.Streams == nil {
		return answer(ctx)
	}
	b, overHTTP := ctx.Value(budgetKey{}).(*budget)
	if overHTTP {
		var cancel context.CancelFunc
		ctx, cancel = b.reading(ctx)
		defer cancel()
	}
	end, err := t.Streams.Turn(ctx, who)
	if err != nil {
		return nil, err
	}
	defer end()
	raw, err := answer(ctx)
	if err == nil && overHTTP {
		err = b.grow(raw)
	}
	return raw, err
}

// echo answers a call that repeats that part of its arguments: there is room for it, or nothing is done.
func echo(ctx context.Context, what []byte, answer func(context.Context) ([]byte, error)) ([]byte, error) {
	if b, overHTTP := ctx.Value(budgetKey{}).(*budget); overHTTP {
		if err := b.grow(what); err != nil {
			return nil, err
		}
	}
	return answer(ctx)
}

// size is how large the result of raw is in an answer at most: its members are escaped as for HTML, and text is quoted too.
func size(raw []byte) int {
	separators := wire.Separators(raw)
	n, quoted := len(raw)+3*separators, separators
	for _, b := range raw {
		switch b {
		case '<', '>', '&':
			n += 5
		case '"', '\\':
			quoted++
		}
	}
	if len(raw) <= maxText {
		n += n + quoted
	}
	return n + 256
}

var errAnswers = &runtime.Error{
	Kind: runtime.KindTooLarge, Code: "answers_too_large",
	Detail: "The answers to this request are larger than 16 MiB together; ask for this one alone",
}
