package wire

import (
	"crypto/sha256"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// IDForm is the form of the ids of calls that a server accepts.
type IDForm string

// The forms of ids.
const (
	AnyID   IDForm = ""
	NineID  IDForm = "nine"  // nine letters and digits, for Mistral
	WordID  IDForm = "word"  // at most 64 letters, digits, dashes and underscores, for Anthropic
	ShortID IDForm = "short" // at most 40 bytes, for OpenAI
	GivenID IDForm = "given" // only ids that the provider gave; others are left out, for Google
)

var idForms = map[IDForm]*regexp.Regexp{
	NineID:  regexp.MustCompile(`^[a-zA-Z0-9]{9}$`),
	WordID:  regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`),
	ShortID: regexp.MustCompile(`^[!-~]{1,40}$`),
}

// ours matches ids of calls that no provider gave: of an Answer, and of the log.
var ours = regexp.MustCompile(`^(baton_.*|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)

// id returns id in the form: itself if it fits and is not taken, otherwise a hash of it, or "" for none. It depends on its
// arguments alone, so that a call has the same id in each request of its thread.
func (f IDForm) id(id string, taken map[string]bool) string {
	if f == GivenID {
		if ours.MatchString(id) {
			return ""
		}
		return id
	}
	out := id
	for n := 0; !f.fits(out) || taken[out]; n++ {
		if out = hashed(id + "#" + strconv.Itoa(n)); f == NineID {
			out = out[:9]
		} else {
			out = "call_" + out[:24]
		}
	}
	taken[out] = true
	return out
}

func (f IDForm) fits(id string) bool {
	form := idForms[f]
	return id != "" && (form == nil || form.MatchString(id))
}

// hashed returns a hash of s in letters and digits.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	text := new(big.Int).SetBytes(sum[:]).Text(62)
	return strings.Repeat("0", 43-len(text)) + text
}
