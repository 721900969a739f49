package decide

import (
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/runtime/model"
)

// wire is a command in JSON, in which it can be sent to the instance that decides it.
type wire struct {
	Kind    string          `json:"kind"`
	Command json.RawMessage `json:"command"`
}

// Encode returns a command as JSON.
func Encode(c Command) ([]byte, error) {
	kind := kindOf(c)
	if kind == "" {
		return nil, fmt.Errorf("commands of the type %T are unknown", c)
	}
	text, err := model.JSON(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return model.JSON(wire{kind, text})
}

// Decode reads a command that Encode has written. A kind that is unknown is an error.
func Decode(text []byte) (Command, error) {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	c := empty(w.Kind)
	if c == nil {
		return nil, fmt.Errorf("commands of the kind %q are unknown", w.Kind)
	}
	if err := json.Unmarshal(w.Command, c); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Kind, err)
	}
	return c, nil
}

func kindOf(c Command) string {
	switch c.(type) {
	case *Start:
		return "start"
	case *Claim:
		return "claim"
	case *Resume:
		return "resume"
	case *Expire:
		return "expire"
	case *Append:
		return "append"
	case *Cancel:
		return "cancel"
	case *Close:
		return "close"
	case *Finish:
		return "finish"
	case *TakeOver:
		return "takeOver"
	case *Release:
		return "release"
	case *Look:
		return "look"
	case *Patch:
		return "patch"
	case *Delete:
		return "delete"
	}
	return ""
}

// empty is a command of a kind, nil when there is none.
func empty(kind string) Command {
	for _, c := range []Command{
		new(Start), new(Claim), new(Resume), new(Expire), new(Append), new(Cancel), new(Close), new(Finish), new(TakeOver),
		new(Release), new(Look), new(Patch), new(Delete),
	} {
		if kindOf(c) == kind {
			return c
		}
	}
	return nil
}
