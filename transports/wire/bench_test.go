package wire_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/batonrun/baton/transports/wire"
)

// BenchmarkDecodeRun reads a request with a long transcript.
func BenchmarkDecodeRun(b *testing.B) {
	var body bytes.Buffer
	body.WriteString(`{"threadId": "t", "runId": "r", "state": {"n": 1}, "tools": [], "context": [], "forwardedProps": {}, "messages": [`)
	for i := range 1000 {
		if i > 0 {
			body.WriteString(",")
		}
		fmt.Fprintf(&body, `{"id": "m%d", "role": "user", "content": %q}`, i, bytes.Repeat([]byte("some words, "), 80))
	}
	body.WriteString("]}")
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeRun(body.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
