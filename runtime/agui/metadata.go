package agui

import (
	"encoding/json"
	"slices"
	"strings"
)

// MergeMetadata returns metadata with the members of more folded in, key by key: a key's last value
// wins. It changes neither, and returns one of them where the other is absent.
func MergeMetadata(metadata, more json.RawMessage) json.RawMessage {
	switch {
	case isNull(more):
		return metadata
	case isNull(metadata):
		return more
	}
	type change struct {
		to    []byte
		taken bool // it has replaced an earlier value
	}
	changes := make(map[string]*change)
	_ = eachMember(more, func(name string, val []byte) error {
		changes[name] = &change{to: val}
		return nil
	})
	dst := []byte{'{'}
	_ = eachMember(metadata, func(name string, val []byte) error {
		if c := changes[name]; c != nil {
			val, c.taken = c.to, true
		}
		dst = append(appendString(appendComma(dst), name), ':')
		dst = appendJSON(dst, val)
		return nil
	})
	dst = appendMembersBut(dst, more, func(name string) bool { return changes[name].taken })
	return append(dst, '}')
}

// IsReservedMember reports whether only Baton writes a metadata member of that name, in any case, because encoding/json ignores it.
func IsReservedMember(name string) bool {
	return slices.ContainsFunc([]string{"agent", "stage", "workerAgentOutput", "toolAgentOutput"}, func(our string) bool {
		return strings.EqualFold(name, our)
	})
}
