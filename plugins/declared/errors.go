package declared

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one error in a file.
type Error struct {
	File    string `json:"file"`
	Line    int    `json:"line"`           // from 1, 0 for the file as a whole
	Column  int    `json:"column"`         // from 1, 0 for the file as a whole
	Path    string `json:"path,omitempty"` // of the value, such as agents.researcher.tools
	Message string `json:"message"`

	plain bool // the message has nothing but the file's own text
}

// Error returns file:line:column, the path and the message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	return b.String() + ": " + e.Message
}

// Errors are all errors of a file in the order of its lines.
type Errors []*Error

// Error returns one line per error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

func (es Errors) sort() {
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
}
