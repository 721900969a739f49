package wire

import (
	"encoding/json"
	"regexp"
	"strings"
)

// aliases are names of properties that providers refuse, by the names that stand for them in a request and its answer. An alias has a hash
// of the name, so it is found in any text. The zero value has none.
type aliases struct {
	names map[string]string
	keys  *regexp.Regexp    // matches the names as keys of JSON; nil if there are others since
	back  *strings.Replacer // likewise
}

func (a *aliases) add(alias, name string) {
	if a.names == nil {
		a.names = make(map[string]string)
	}
	a.names[alias] = name
	a.keys, a.back = nil, nil
}

func (a *aliases) compile() {
	if a.keys != nil {
		return
	}
	var keys, back []string
	for alias, name := range a.names {
		key := quotedJSON(name)
		keys = append(keys, regexp.QuoteMeta(key))
		back = append(back, alias, key[1:len(key)-1])
	}
	a.keys = regexp.MustCompile(`(` + strings.Join(keys, "|") + `)(\s*:)`)
	a.back = strings.NewReplacer(back...)
}

// put returns the arguments of a call with aliases as keys.
func (a *aliases) put(arguments json.RawMessage) json.RawMessage {
	if len(a.names) == 0 {
		return arguments
	}
	a.compile()
	byKey := make(map[string]string, len(a.names))
	for alias, name := range a.names {
		byKey[quotedJSON(name)] = quotedJSON(alias)
	}
	return a.keys.ReplaceAllFunc(arguments, func(found []byte) []byte {
		key := a.keys.FindSubmatch(found)
		return append([]byte(byKey[string(key[1])]), key[2]...)
	})
}

// resolve returns a piece of arguments with the names.
func (a *aliases) resolve(piece string) string {
	if len(a.names) == 0 {
		return piece
	}
	a.compile()
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
