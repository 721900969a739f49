package remote

import (
	"fmt"
	"strings"
	"testing"
)

// The number of stored halves is limited.
func TestHalves_AreLimited(t *testing.T) {
	t.Parallel()
	h := halves{}
	for i := range 10 * mostHalf {
		h.join(fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"\ud83d"}`, i), new(shorthands))
	}
	if len(h) != mostHalf {
		t.Errorf("%d halves are stored", len(h))
	}
	h = halves{}
	h.join(fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"%s","delta":"\ud83d"}`, strings.Repeat("x", 2*longestID)), new(shorthands))
	if len(h) != 0 {
		t.Error("a half is stored under a huge id")
	}
}
