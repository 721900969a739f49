package agui

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// The functions of this file append members to an object that is being written into dst. They never
// fail and allocate nothing beyond dst's growth.

// appendKey appends a member's name, with a comma before it unless the object has just been opened.
func appendKey(dst []byte, name string) []byte {
	dst = append(appendComma(dst), '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// appendStr appends a string member.
func appendStr(dst []byte, name, s string) []byte {
	return appendString(appendKey(dst, name), s)
}

// appendOptStr appends a string member unless it is empty.
func appendOptStr(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendStr(dst, name, s)
}

// appendBool appends a boolean member.
func appendBool(dst []byte, name string, v bool) []byte {
	return strconv.AppendBool(appendKey(dst, name), v)
}

// appendOptInt appends an integer member unless it is 0.
func appendOptInt(dst []byte, name string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return appendInt(dst, name, n)
}

// appendInt appends an integer member.
func appendInt(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendKey(dst, name), n, 10)
}

// appendRaw appends a member that is JSON already, or or if it is empty.
func appendRaw(dst []byte, name string, raw json.RawMessage, or string) []byte {
	dst = appendKey(dst, name)
	if len(raw) == 0 {
		return append(dst, or...)
	}
	return appendJSON(dst, raw)
}

// appendOptRaw appends a member that is JSON already, unless it is absent or null.
func appendOptRaw(dst []byte, name string, raw json.RawMessage) []byte {
	if isNull(raw) {
		return dst
	}
	return appendJSON(appendKey(dst, name), raw)
}

// appendStrings appends a member that is an array of strings, unless it is empty.
func appendStrings(dst []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(appendKey(dst, name), '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

// appendMembers appends the members of obj, a JSON object or nothing.
func appendMembers(dst []byte, obj json.RawMessage) []byte {
	inner := bytes.TrimSpace(obj)
	if bytes.ContainsAny(inner, "\r\n") {
		inner = appendJSON(nil, inner)
	}
	if len(inner) < 2 || inner[0] != '{' {
		return dst
	}
	inner = bytes.TrimSpace(inner[1 : len(inner)-1])
	if len(inner) == 0 {
		return dst
	}
	return append(appendComma(dst), inner...)
}

// appendMembersBut appends the members of obj that skip does not name.
func appendMembersBut(dst []byte, obj json.RawMessage, skip func(name string) bool) []byte {
	_ = eachMember(obj, func(name string, val []byte) error {
		if !skip(name) {
			dst = append(appendString(appendComma(dst), name), ':')
			dst = appendJSON(dst, val)
		}
		return nil
	})
	return dst
}

// appendComma appends a comma unless the object or array has just been opened.
func appendComma(dst []byte) []byte {
	if c := dst[len(dst)-1]; c != '{' && c != '[' {
		dst = append(dst, ',')
	}
	return dst
}

// appendJSON appends raw on one line. Valid JSON has line breaks only between tokens; invalid JSON becomes null, as it could break
// the frame.
func appendJSON(dst []byte, raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...)
	}
	buf := bytes.NewBuffer(make([]byte, 0, len(raw)))
	if json.Compact(buf, raw) != nil {
		return append(dst, "null"...)
	}
	return append(dst, buf.Bytes()...)
}

const hexDigits = "0123456789abcdef"

// plain marks the bytes that a JSON string contains as they are.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// plainUntil returns the index of the first byte of s, from i on, that is not plain, or the length of s.
func plainUntil(s string, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 { // eight at a time: x-ones has the top bit where a byte of x was 0, and at most behind one
		b := s[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, slash := x^'"'*ones, x^'\\'*ones
		if (x|(x-' '*ones)|(quote-ones)&^quote|(slash-ones)&^slash)&tops != 0 {
			break
		}
	}
	for i < len(s) && plain[s[i]] {
		i++
	}
	return i
}

// AppendString appends s as a JSON string. Invalid UTF-8 is replaced.
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := plainUntil(s, 0); i < len(s); i = plainUntil(s, i) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// isNull reports whether raw is absent or JSON's null.
func isNull(raw []byte) bool {
	return len(raw) == 0 || string(raw) == "null"
}
