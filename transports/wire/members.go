package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/agui"
)

// member is a member of a request's object. Its value is a part of the body.
type member struct {
	name  string
	value json.RawMessage
}

// maxMembers is the most members of the object itself.
const maxMembers = 1000

// members checks that body is one JSON object in UTF-8 that every reader after this one can hold, and returns its members in order.
// No later reader checks the body again.
func members(body []byte) ([]member, error) {
	text := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case !utf8.Valid(body):
		return nil, Refuse(codeJSON, "The request body is not valid UTF-8")
	case len(text) == 0:
		return nil, Refuse(codeJSON, "The request body is empty; send a JSON object")
	}
	if err := Scan(body); err != nil {
		return nil, err
	}
	switch {
	case !json.Valid(body):
		return nil, Refuse(codeJSON, "The request body is not valid JSON")
	case text[0] != '{':
		return nil, Refuse(codeRequest, "The request must be a JSON object")
	}
	var all []member
	listed := 0
	err := agui.EachMember(text, func(name string, val []byte) error {
		if len(all) == maxMembers {
			return tooMany(maxMembers, "members")
		}
		all = append(all, member{name, val})
		switch name {
		case "messages", "tools", "context", "resume", "contextItemIds":
			listed += elements(val, true)
		}
		return nil
	})
	if most := maxElements(len(body)); err == nil && listed > most {
		err = tooMany(most, "elements of lists")
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// elements counts the elements of a list, and with deep those of the lists in them, such as a message's calls and parts: what becomes
// structs.
func elements(list []byte, deep bool) (n int) {
	// A value that is no list has no elements; its decoder refuses it.
	_ = agui.EachElement(list, func(element []byte) error {
		if n++; deep {
			_ = agui.EachMember(element, func(_ string, val []byte) error {
				n += elements(val, false)
				return nil
			})
		}
		return nil
	})
	return n
}

// maxElements is the most elements of lists in a body of that length: two bytes of JSON may become hundreds of bytes. Real requests
// stay below it.
func maxElements(length int) int { return min(1000+length/32, 50_000) }
