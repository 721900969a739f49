package document

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// remedies maps parts of the parser's messages to explanations.
var remedies = []struct{ problem, remedy string }{
	{"mapping values are not allowed", "there is a colon too many: put a value that contains one in quotes"},
	{"did not find expected ',' or", "a brace or bracket is not closed, or a comma is missing"},
	{"found unexpected end of stream", "a quote is not closed"},
	{"did not find expected key", "does not match the lines above: check its indentation"},
	{"did not find expected '-' indicator", "does not match the lines above: check its indentation"},
	{"did not find expected <document start>", "does not match the lines above: check its indentation"},
	{"could not find expected ':'", "want name: value"},
	{"found character that cannot start any token", "put a value that begins with %, @ or ` in quotes"},
	{"found unknown escape character", "put a value with a backslash in single quotes"},
	{"expected hexdecimal number", "put a value with a backslash in single quotes"},
	{"control characters are not allowed", "there is a control character, which is no text"},
	{"UTF-8", "is not UTF-8: save the file as UTF-8"},
}

// explain returns the line of an error, 0 if unknown, and its explanation.
func explain(text []byte, err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if at, rest, ok := strings.Cut(strings.TrimPrefix(message, "line "), ": "); ok {
		if n, err := strconv.Atoi(at); err == nil {
			line, message = n, rest
		}
	}
	if found := culprit(text); found > 0 {
		line = found
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	here := ""
	if line > 0 && line <= len(lines) {
		here = string(lines[line-1])
	}
	indent := here[:len(here)-len(strings.TrimLeft(here, " \t"))]
	switch {
	case strings.Contains(indent, "\t"):
		return line, "is indented with a tab: use spaces"
	case strings.Contains(message, "did not find expected ',' or") && strings.Contains(here, "${"):
		return line, "a brace or bracket is not closed, or ${…} within braces is not in quotes"
	}
	for _, r := range remedies {
		if strings.Contains(message, r.problem) {
			return line, r.remedy
		}
	}
	return line, message
}

// maxSearched bounds the text that culprit parses repeatedly, in bytes.
const maxSearched = 64 << 10

// culprit returns the line after the longest valid beginning of the text, 0 if the text is too long. The parser often names the line
// where the broken structure begins instead.
func culprit(text []byte) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i, line := range lines {
		if bytes.ContainsFunc(line, func(r rune) bool { return r == utf8.RuneError || r < ' ' && !strings.ContainsRune("\t\r\n", r) }) {
			return i + 1
		}
	}
	if len(text) > maxSearched {
		return 0
	}
	for n := len(lines) - 1; n >= 0; n-- {
		text = text[:len(text)-len(lines[n])]
		if _, _, err := parse(text); err == nil {
			for n < len(lines)-1 && blank(lines[n]) {
				n++
			}
			return n + 1
		}
	}
	return 0
}

// blank reports whether a line is empty or a comment.
func blank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}
