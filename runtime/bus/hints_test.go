package bus

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// describe shows hints as the kinds with their keys.
func describe(h *Hints) string {
	var parts []string
	for kind := range h {
		switch keys := &h[kind]; {
		case keys.All:
			parts = append(parts, kindNames[kind]+" all")
		case !keys.Empty():
			parts = append(parts, fmt.Sprint(kindNames[kind], " ", keys.List()))
		}
	}
	return strings.Join(parts, ", ")
}

func TestDatagram_IsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	d := datagram{from: "a-1", sent: 36*36 + 35}
	for _, key := range []int64{71, 1, 36, 1, math.MaxInt64} {
		d.hints[Look].add(key)
	}
	d.hints[Cancel].add(9)
	d.hints[Orphans].All = true
	const want = "1 a-1 10z look=1,10,1z,1y2p0ij32e8e7 cancel=9 orphans=*"
	if got := string(d.encode()); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	got, ok := decode(d.encode())
	if !ok || got.from != d.from || got.sent != d.sent || describe(&got.hints) != describe(&d.hints) {
		t.Errorf("%v %s %d %s", ok, got.from, got.sent, describe(&got.hints))
	}
}

// Too many keys, and keys that are too long, are all keys.
func TestDatagram_HasABound(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(int) int64{
		"short": func(i int) int64 { return int64(i) },
		"long":  func(i int) int64 { return math.MaxInt64 - int64(i) },
	} {
		d := datagram{from: strings.Repeat("n", longestName), sent: math.MaxInt64}
		for kind := range d.hints {
			for i := range 10 * mostKeys {
				d.hints[kind].add(key(i))
			}
			if !d.hints[kind].All || d.hints[kind].keys != nil {
				t.Errorf("%s: %d keys are remembered", name, len(d.hints[kind].keys))
			}
			d.hints[kind] = Keys{}
			for i := range 100 {
				d.hints[kind].add(key(i))
			}
		}
		if n := len(d.encode()); n > MaxBytes {
			t.Errorf("%s: %d bytes", name, n)
		}
		for i := range mostKeys {
			d.hints[Look].add(math.MaxInt64 - int64(i))
		}
		if got, ok := decode(d.encode()); !ok || !got.hints[Look].All {
			t.Errorf("%s: %v, look %d", name, ok, len(got.hints[Look].keys))
		}
	}
}

func TestDatagram_IgnoresWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1 a 0":                                   "",
		"1 a 0 look=1,x!,,2 nothing=4 =  cancel":  "look [1 2]",
		"1 a 0 look=1 look=2 look":                "look [1 2]",
		"1 a 0 look=1,* inbox=* queue=**":         "look [1], inbox all",
		"1 a -z want=-1":                          "want [-1]",
		"1 a 0 LOOK=1 look=1y2p0ij32e8e8 \x00=\n": "", // a key too high by one
	} {
		d, ok := decode([]byte(text))
		if got := describe(&d.hints); !ok || got != want {
			t.Errorf("%q: %v %s, want %s", text, ok, got, want)
		}
	}
	for _, text := range []string{"", "1", "1 a", "2 a 0 look=1", "1  0", "1 a ? look=1", "1 " + strings.Repeat("a", 101) + " 0", "1 a 0 " + strings.Repeat(" ", MaxBytes)} {
		if d, ok := decode([]byte(text)); ok {
			t.Errorf("%.50q is of %q", text, d.from)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("1 a 0 look=1,2,3 cancel=* want=zz orphans=*"))
	f.Add([]byte("1 a 0 look="))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, ok := decode(b)
		if !ok {
			return
		}
		for kind := range d.hints {
			if n := len(d.hints[kind].keys); n > mostKeys {
				t.Errorf("%d keys", n)
			}
		}
		again, ok := decode(d.encode())
		if !ok || again.from != d.from || again.sent != d.sent {
			t.Fatalf("%q is read as %q", b, d.encode())
		}
		for kind := range d.hints {
			if got := &again.hints[kind]; !got.All && !slices.Equal(got.List(), d.hints[kind].List()) {
				t.Errorf("%s of %q: %v", kindNames[kind], b, got.List())
			}
		}
	})
}
