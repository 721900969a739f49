package work

import (
	"context"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/bus"
)

// heedEvery is the pause after hints were heeded. Those that arrive meanwhile are heeded together.
const heedEvery = 10 * time.Millisecond

// hints is the engine's link to the other servers of the database. A hint makes the engine look at the database earlier than it would
// anyway.
type hints struct {
	link *bus.Link // nil without a bus

	unlinked context.Context // done once the last hints are to be sent
	unlink   context.CancelFunc
	linking  sync.WaitGroup
}

func newHints(abandoned context.Context, link *bus.Link) *hints {
	h := &hints{link: link}
	h.unlinked, h.unlink = context.WithCancel(abandoned)
	return h
}

// connect begins to send and receive hints. The server wants news of the threads and lists that wanted returns.
func (h *hints) connect(wanted func(kind bus.Kind, most int) []int64) {
	h.linking.Go(func() { h.link.Run(h.unlinked, wanted) }) // ends with disconnect, or when the engine is abandoned
}

// HintRevoked makes the other servers check a credential.
func (h *hints) HintRevoked(credential string) { h.link.Hint(bus.Revoked, bus.KeyOf(credential)) }

// disconnect sends the last hints.
func (h *hints) disconnect() {
	h.unlink()
	h.linking.Wait()
}
