package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/batonrun/baton/runtime"
)

// Guesses counts wrong credentials per address. At the limit it checks only credentials that were good before, from any address,
// and Signed ones, so that guessing does not lock out clients that are in; new ones at that address wait. A
// repeated wrong credential, such as an expired one, counts once. A nil Guesses counts nothing.
type Guesses struct {
	perMinute int
	exempt    func(netip.Addr) bool
	log       *slog.Logger
	seed      [16]byte // digests mean nothing elsewhere

	mu      sync.Mutex // guards the fields below
	of      map[netip.Prefix]*guesser
	good    map[digest]struct{} // of the latest good credentials, and
	earlier map[digest]struct{} // the previous generation
}

type digest [16]byte

// guesser is an address of which something was wrong.
type guesser struct {
	left   *rate.Limiter
	latest []digest // the wrong credentials
	told   bool     // the refusals were logged
}

// The limits of the memory.
const (
	maxGuessers = 10_000
	maxLatest   = 16
	maxGood     = 10_000
)

// NewGuesses returns Guesses with a limit per address and minute, nil for 0 or less. Exempt addresses, which forward the requests
// of others, have no limit.
func NewGuesses(perMinute int, exempt func(netip.Addr) bool, log *slog.Logger) *Guesses {
	if perMinute <= 0 {
		return nil
	}
	g := &Guesses{
		perMinute: perMinute, exempt: exempt, log: log,
		of: make(map[netip.Prefix]*guesser), good: make(map[digest]struct{}),
	}
	_, _ = rand.Read(g.seed[:]) // it never fails
	return g
}

// PerMinute is the limit, 0 for none.
func (g *Guesses) PerMinute() int {
	if g == nil {
		return 0
	}
	return g.perMinute
}

// guess is one credential from one address.
type guess struct {
	of   *Guesses // nil for an uncounted credential
	from netip.Prefix
	what digest
}

// begin decides whether a request's credential is checked. It fails with the time to retry after.
func (g *Guesses) begin(r *http.Request, from netip.Addr) (guess, error) {
	if g == nil || !from.IsValid() || g.exempt(from) {
		return guess{}, nil
	}
	text := r.URL.Query().Get("ticket") + strings.Join(r.Header.Values("Authorization"), "\n")
	if text == "" { // which guesses nothing
		return guess{}, nil
	}
	sum := sha256.Sum256(append(g.seed[:], text...))
	try := guess{of: g, from: network(from), what: digest(sum[:16])}
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.of[try.from]
	if who == nil || who.knows(try.what) || g.wasGood(try.what) {
		return try, nil
	}
	missing := 1 - who.left.Tokens()
	if missing <= 0 {
		return try, nil
	}
	if !who.told {
		who.told = true
		g.log.Warn("too many credentials of an address are wrong; new ones are not looked at for a while", "address", try.from.Addr())
	}
	return guess{}, &runtime.Error{
		Kind: runtime.KindOverloaded, Code: "too_many_guesses",
		Detail:     "Too many credentials from your address were wrong; those that were not used before are not looked at for a while",
		RetryAfter: time.Duration(math.Ceil(missing/float64(who.left.Limit()))) * time.Second,
	}
}

// network is an IPv4 address, or the /64 network of an IPv6 address.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the bits fit
	return p
}

func (w *guesser) knows(what digest) bool { return slices.Contains(w.latest, what) }

// wasGood reports whether a credential was good lately, and extends its memory. The caller holds mu.
func (g *Guesses) wasGood(what digest) bool {
	if _, ok := g.good[what]; ok {
		return true
	}
	if _, ok := g.earlier[what]; !ok {
		return false
	}
	g.keep(what)
	return true
}

func (g *Guesses) keep(what digest) {
	if len(g.good) >= maxGood/2 {
		g.good, g.earlier = make(map[digest]struct{}), g.good
	}
	g.good[what] = struct{}{}
}

// right notes that the credential is good.
func (t guess) right() {
	if t.of == nil {
		return
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if !t.of.wasGood(t.what) {
		t.of.keep(t.what)
	}
}

// wrong counts the credential.
func (t guess) wrong() {
	if t.of == nil {
		return
	}
	g := t.of
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.of[t.from]
	if who == nil {
		g.room()
		who = &guesser{left: rate.NewLimiter(rate.Limit(float64(g.perMinute)/60), g.perMinute)}
		g.of[t.from] = who
	}
	if who.knows(t.what) {
		return
	}
	if who.latest = append(who.latest, t.what); len(who.latest) > maxLatest {
		who.latest = slices.Delete(who.latest, 0, 1)
	}
	if who.left.Tokens() >= float64(g.perMinute)/2 {
		who.told = false
	}
	who.left.Allow()
}

// room forgets addresses of which nothing was wrong for long, and else a quarter of all, when there are as many as there may be.
// The caller holds mu.
func (g *Guesses) room() {
	if len(g.of) < maxGuessers {
		return
	}
	for from, who := range g.of {
		if who.left.Tokens() >= float64(who.left.Burst()) {
			delete(g.of, from)
		}
	}
	for from := range g.of {
		if len(g.of) <= maxGuessers*3/4 {
			break
		}
		delete(g.of, from)
	}
}
