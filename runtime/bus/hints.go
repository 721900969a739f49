package bus

import (
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Kind is a kind of hint, and so the kind of its keys.
type Kind int

// The kinds of hints.
const (
	Want    Kind = iota // threads: the sender has readers of their logs
	Look                // threads: their logs have news
	Cancel              // runs: they are to be cancelled, says their row
	Inbox               // runs: they have messages that were appended
	Signal              // runs: they have signals
	Queue               // all: runs are queued for which the sender has no room
	Orphans             // all: RUNNING runs have lost their server
	Watch               // lists: the sender has viewers of them
	Changed             // lists: they have changed
	Revoked             // credentials, by KeyOf: they were revoked
	kinds
)

var kindNames = [kinds]string{"want", "look", "cancel", "inbox", "signal", "queue", "orphans", "watch", "changed", "revoked"}

const (
	protocol = "1"
	// mostBytes is the size of the keys of one kind in a datagram, and mostKeys the number of keys that can fit.
	mostBytes = 850
	mostKeys  = mostBytes / 2
	// longestName is the size of the longest sender's name.
	longestName = 100
)

// Keys are keys of threads, runs or lists. Too many keys are All.
type Keys struct {
	All  bool
	keys map[int64]struct{}
}

// Empty reports whether there are no keys.
func (k *Keys) Empty() bool { return !k.All && len(k.keys) == 0 }

// Has reports whether a key is among the keys.
func (k *Keys) Has(key int64) bool {
	_, ok := k.keys[key]
	return ok || k.All
}

// List returns the keys in their order, unless they are All.
func (k *Keys) List() []int64 { return slices.Sorted(maps.Keys(k.keys)) }

func (k *Keys) add(key int64) {
	switch {
	case k.All:
	case len(k.keys) >= mostKeys:
		*k = Keys{All: true}
	default:
		if k.keys == nil {
			k.keys = make(map[int64]struct{})
		}
		k.keys[key] = struct{}{}
	}
}

func (k *Keys) merge(other *Keys) {
	if other.All {
		*k = Keys{All: true}
	}
	for key := range other.keys {
		k.add(key)
	}
}

// KeyOf returns the key of a name. Two names of one key are unlikely, and only make a server read more than it needs.
func KeyOf(name string) int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	return int64(h.Sum64() >> 16) //nolint:gosec // 48 bits
}

// Hints are the keys of each kind.
type Hints [kinds]Keys

func (h *Hints) empty() bool {
	return !slices.ContainsFunc(h[:], func(k Keys) bool { return !k.Empty() })
}

func (h *Hints) merge(other *Hints) {
	for kind := range h {
		h[kind].merge(&other[kind])
	}
}

// datagram is one message of a server to all others. As text: "1 name sent look=2f,3a orphans=*", with numbers in base 36.
type datagram struct {
	from  string // the sender's name, without spaces
	sent  int64  // by the sender's clock
	hints Hints
}

func (d *datagram) encode() []byte {
	b := []byte(protocol + " " + d.from + " ")
	b = strconv.AppendInt(b, d.sent, 36)
	for kind := range d.hints {
		keys := &d.hints[kind]
		if keys.Empty() {
			continue
		}
		b = append(b, " "+kindNames[kind]+"="...)
		before := len(b)
		for i, key := range keys.List() {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, key, 36)
		}
		if keys.All || len(b)-before > mostBytes {
			b = append(b[:before], '*')
		}
	}
	return b
}

// decode reads a datagram. It ignores unknown parts, and reports false for a datagram of another protocol.
func decode(b []byte) (d datagram, ok bool) {
	if len(b) > MaxBytes {
		return d, false
	}
	fields := strings.Split(string(b), " ")
	if len(fields) < 3 || fields[0] != protocol || fields[1] == "" || len(fields[1]) > longestName {
		return d, false
	}
	sent, err := strconv.ParseInt(fields[2], 36, 64)
	if err != nil {
		return d, false
	}
	d.from, d.sent = fields[1], sent
	for _, part := range fields[3:] {
		name, list, _ := strings.Cut(part, "=")
		kind := slices.Index(kindNames[:], name)
		if kind < 0 {
			continue
		}
		if list == "*" {
			d.hints[kind] = Keys{All: true}
			continue
		}
		for key := range strings.SplitSeq(list, ",") {
			if n, err := strconv.ParseInt(key, 36, 64); err == nil {
				d.hints[kind].add(n)
			}
		}
	}
	return d, true
}
