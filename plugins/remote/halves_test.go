package remote

import (
	"fmt"
	"strings"
	"testing"
)

// A remote that begins characters and never ends them has no more of them kept than there is room for.
func TestHalvesThatAreNeverEndedAreBound(t *testing.T) {
	h := halves{}
	for i := range 10 * mostHalf {
		h.join(fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"\ud83d"}`, i), new(shorthands))
	}
	if len(h) != mostHalf {
		t.Errorf("%d halves are kept", len(h))
	}
	h = halves{}
	h.join(fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"%s","delta":"\ud83d"}`, strings.Repeat("x", 2*longestID)), new(shorthands))
	if len(h) != 0 {
		t.Error("one is kept under an id that is as large as its message")
	}
}
