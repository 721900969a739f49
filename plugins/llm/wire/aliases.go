package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// aliases are names of properties that providers refuse, by the names that stand for them in a request and its answer. An alias has a hash
// of the name, so it is found in any text. The zero value has none.
type aliases struct {
	names map[string]string
	keys  *regexp.Regexp    // matches the names as keys of JSON
	byKey map[string]string // keys with the aliases by those
	back  *strings.Replacer
}

func aliasesOf(names map[string]string) aliases {
	a := aliases{names: names, byKey: make(map[string]string, len(names))}
	var keys, back []string
	for alias, name := range names {
		key := quotedJSON(name)
		keys = append(keys, regexp.QuoteMeta(key))
		a.byKey[key] = quotedJSON(alias)
		back = append(back, alias, key[1:len(key)-1])
	}
	a.keys = regexp.MustCompile(`(` + strings.Join(keys, "|") + `)\s*:`)
	a.back = strings.NewReplacer(back...)
	return a
}

// put returns the arguments of a call with aliases as keys.
func (a *aliases) put(arguments json.RawMessage) json.RawMessage {
	if len(a.names) == 0 {
		return arguments
	}
	return a.keys.ReplaceAllFunc(arguments, func(found []byte) []byte {
		end := bytes.LastIndexByte(found, '"') + 1
		return append([]byte(a.byKey[string(found[:end])]), found[end:]...)
	})
}

// resolve returns a piece of arguments with the names.
func (a *aliases) resolve(piece string) string {
	if len(a.names) == 0 {
		return piece
	}
	return a.back.Replace(piece)
}

// whole returns the length of the part of text that ends in no beginning of an alias.
func (a *aliases) whole(text string) int {
	end := len(text)
	for alias := range a.names {
		for n := min(len(alias)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, alias[:n]) {
				end = min(end, len(text)-n)
				break
			}
		}
	}
	return end
}

func quotedJSON(s string) string {
	b, _ := encode(s, nil) // a string has a form in JSON
	return strings.TrimSpace(string(b))
}
