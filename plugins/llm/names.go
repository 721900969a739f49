package llm

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"
)

// wireName matches names of tools that all providers accept.
var wireName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)

func allowed(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// dotless returns a name of a tool with dots as underscores.
func dotless(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Alias returns a name of a tool or a property that providers accept and that no other name becomes: with a hash of the name. It keeps the beginning of
// the name's letters.
func Alias(name string) string {
	kept := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case allowed(r):
			return r
		case r < 0x80:
			return '_'
		}
		return -1
	}, name), "_-")
	if kept == "" || kept[0] >= '0' && kept[0] <= '9' {
		kept = "t_" + kept
	}
	sum := sha256.Sum256([]byte(name))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
	return strings.TrimRight(kept[:min(len(kept), 55)], "_-") + "_" + hash
}

// wireOf returns the provider's name of a tool, if no other tool has the same.
func wireOf(name string) string {
	if wire := dotless(name); wireName.MatchString(wire) {
		return wire
	}
	return Alias(name)
}
