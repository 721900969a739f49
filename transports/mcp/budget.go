package mcp

import (
	"context"
	"sync"

	"github.com/batonrun/baton/runtime"
)

// maxAnswers is how large the answers to one request may be together, but for the last that began below it: they are kept
// until all are there.
const maxAnswers = 16 << 20

// budgetKey is the context's key of the *budget of a request over HTTP.
type budgetKey struct{}

// budget is what the answers to one request may still hold. Its calls are answered one after the other, so that no more
// than one answer is made beside those that are counted.
type budget struct {
	mu   sync.Mutex // guards left, and is held while a call is answered
	left int
}

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

var errAnswers = &runtime.Error{
	Kind: runtime.KindTooLarge, Code: "answers_too_large",
	Detail: "The answers to this request are larger than 16 MiB together; ask for this one alone",
}
