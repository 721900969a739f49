package agui_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
)

func TestUsage_IsBounded(t *testing.T) {
	var list []agui.TokenUsage
	long := strings.Repeat("é", 1<<20)
	for i := range 10_000 {
		list = agui.AddUsage(list, agui.TokenUsage{Provider: fmt.Sprint(i), Model: long, InputTokens: 1, OutputTokens: math.MaxInt64})
		list = agui.AddUsage(list, agui.TokenUsage{Provider: "known", Model: "m", InputTokens: 1})
	}
	var in, size int64
	for _, u := range list {
		in += u.InputTokens
		size += int64(len(u.Provider) + len(u.Model))
		if u.OutputTokens < 0 || u.OutputTokens >= 1<<53 {
			t.Errorf("%s has %d tokens", u.Provider, u.OutputTokens)
		}
	}
	if len(list) > 64 || size > 64*400 || in != 20_000 || list[1].Model != "m" || list[1].InputTokens != 10_000 {
		t.Errorf("%d entries, %d bytes, %d tokens, %+v", len(list), size, in, list[1])
	}
}
