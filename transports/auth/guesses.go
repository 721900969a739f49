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

// Guesses counts the credentials of each address that were wrong. Past its limit an address has only those looked at that were
// good before, wherever they came from, and those that are Signed, so that one who guesses shuts nobody out who has been let in:
// others there wait. A credential that is wrong again and again, as one that has expired is, is one guess. What a nil Guesses counts
// is nothing.
type Guesses struct {
	perMinute int
	exempt    func(netip.Addr) bool
	log       *slog.Logger
	seed      [16]byte // digests mean nothing elsewhere

	mu      sync.Mutex // guards the fields below
	of      map[netip.Prefix]*guesser
	good    map[digest]struct{} // of the latest good credentials, and
	earlier map[digest]struct{} // of those before
}

type digest [16]byte

// guesser is an address of which something was wrong.
type guesser struct {
	left   *rate.Limiter
	latest []digest // of what was wrong
	told   bool     // who runs the server knows
}

// What is remembered at most.
const (
	maxGuessers = 10_000
	maxLatest   = 16
	maxGood     = 10_000
)

// NewGuesses returns Guesses of which each address has so many a minute, and those that are exempt, as they ask for others, any
// number; nil for 0 or less.
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
	of   *Guesses // nil for what is not counted
	from netip.Prefix
	what digest
}

// begin says whether a request's credential is looked at. It fails with when to come back.
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

// network is an address, and of version 6 those that one subscriber has.
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

// wasGood reports whether a credential was good lately, and keeps in mind that it was. The caller holds mu.
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
