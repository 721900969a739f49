// Package document reads the YAML file with a server's settings and declarations. It explains malformed YAML with a line and a remedy.
// Other packages interpret the content.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

const maxFile = 4 << 20 // bytes

// Error is the reason why a file cannot be read.
type Error struct {
	File    string
	Line    int // from 1, 0 for the file as a whole
	Message string
}

// Error returns file:line:1 and the message.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:1: %s", e.File, e.Line, e.Message)
}

// Read returns the root of a file, nil if the file is empty. It fails with the error of os.Open, or an *Error.
func Read(name string) (*yaml.Node, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return nil, &Error{File: name, Message: "cannot be read: " + pathErr.Err.Error()}
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > maxFile {
		return nil, &Error{File: name, Message: fmt.Sprintf("is larger than %d MiB", maxFile>>20)}
	}
	root, next, err := parse(text)
	if err != nil {
		line, message := explain(text, err)
		return nil, &Error{name, line, message}
	}
	if next != nil {
		return nil, &Error{name, next.Line, "want one YAML document, got more: remove the line ---"}
	}
	return root, nil
}

// parse returns the roots of the first two documents of a text, nil for missing ones.
func parse(text []byte) (root, next *yaml.Node, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var docs [2]yaml.Node
	for i := range docs {
		if err := dec.Decode(&docs[i]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			root = docs[0].Content[0]
		} else {
			next = &docs[1]
		}
	}
	return root, next, nil
}
