package agui

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// checkPatch reports why raw is not an RFC 6902 patch. Unless root is allowed, no operation may address the whole document: all
// clients understand a snapshot instead.
func checkPatch(raw json.RawMessage, root bool) error {
	if len(raw) == 0 || !json.Valid(raw) {
		return errors.New("must be a JSON Patch")
	}
	i := 0
	return eachElement(raw, func(op []byte) error {
		if i == MaxOperations {
			return fmt.Errorf("a patch may have %d operations", MaxOperations)
		}
		if err := checkOp(op, root); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
		i++
		return nil
	})
}

func checkOp(op []byte, root bool) error {
	var kind string
	var path, from, value []byte
	err := eachMember(op, func(name string, val []byte) error {
		switch name {
		case "op":
			return setString(&kind, name, val)
		case "path":
			path = val
		case "from":
			from = val
		case "value":
			value = val
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch kind {
	case "add", "replace", "test":
		if value == nil {
			return fmt.Errorf("%s without value", kind)
		}
	case "move", "copy":
		if err := checkPointer("from", from, root); err != nil {
			return err
		}
	case "remove":
	default:
		return fmt.Errorf("op %q is none of RFC 6902", kind)
	}
	if err := checkPointer("path", path, root); err != nil {
		return err
	}
	return nil
}

// checkPointer reports why val, the member of that name, is not an RFC 6901 pointer.
func checkPointer(name string, val []byte, root bool) error {
	if len(val) == 0 || val[0] != '"' {
		return fmt.Errorf("%s must be a string", name)
	}
	p, err := unquote(val)
	if err != nil {
		return err
	}
	if p == "" && !root {
		return fmt.Errorf("%s is the whole document: send a snapshot", name)
	}
	if !Patchable(p) {
		return fmt.Errorf("%s %q is refused by clients: send a snapshot", name, p)
	}
	if p != "" && p[0] != '/' {
		return fmt.Errorf("%s %q does not begin with a slash", name, p)
	}
	for i := 0; i < len(p); i++ {
		if p[i] == '~' && (i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1') {
			return fmt.Errorf("%s %q has a ~ that is neither ~0 nor ~1", name, p)
		}
	}
	return nil
}

// Patchable reports whether clients can patch a path: fast-json-patch refuses paths through an object's prototype.
func Patchable(path string) bool {
	return !strings.Contains(path+"/", "/__proto__/") && !strings.Contains(path+"/", "/constructor/prototype/")
}
