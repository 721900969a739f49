package agui

import "encoding/json"

// MergeMetadata returns metadata with the members of more folded in, key by key: a key's last value
// wins. It changes neither, and returns one of them where the other is absent.
func MergeMetadata(metadata, more json.RawMessage) json.RawMessage {
	switch {
	case isNull(more):
		return metadata
	case isNull(metadata):
		return more
	}
	dst := []byte{'{'}
	_ = eachMember(metadata, func(name string, val []byte) error {
		if now := lookup(more, name); now != nil {
			val = now
		}
		dst = append(appendString(appendComma(dst), name), ':')
		dst = appendJSON(dst, val)
		return nil
	})
	dst = appendMembersBut(dst, more, func(name string) bool { return lookup(metadata, name) != nil })
	return append(dst, '}')
}
