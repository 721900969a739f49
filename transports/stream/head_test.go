package stream

import (
	"bytes"
	"testing"
)

// FuzzHead reads a head in pieces, and compares with a look at all of it.
func FuzzHead(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\nbody"), uint8(1))
	f.Add([]byte("a\n\nb\r\n\rc\r\n\r\n\r\n\n"), uint8(3))
	f.Fuzz(func(t *testing.T, all []byte, step uint8) {
		var want []int // where lines are empty, up to the first that ends without a carriage return
		for at := 0; ; {
			n := bytes.IndexByte(all[at:], '\n')
			if n < 0 {
				break
			}
			line := all[at : at+n]
			bare := !bytes.HasSuffix(line, []byte("\r"))
			if at += n + 1; bare || len(line) == 1 {
				want = append(want, at)
			}
			if bare {
				all = all[:at]
				break
			}
		}
		var h head
		for at := 0; at < len(all) && !h.bare; {
			end := min(at+max(int(step), 1), len(all))
			at += h.cut(all[at:end])
			switch ended := len(want) > 0 && at == want[0]; {
			case ended:
				want = want[1:]
			case at != end || len(want) > 0 && at > want[0]:
				t.Fatalf("cut at %d, want at %v", at, want)
			}
		}
	})
}
