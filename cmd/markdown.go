package cmd

import (
	"regexp"
	"strings"
)

// markdown styles Markdown for a terminal while it arrives: headings, lists, quotes, code and bold text. Everything else stays
// as it is written.
type markdown struct {
	held    string // the start of a line, or a marker, that the next text may complete
	within  bool   // the line has begun
	heading bool   // the line is a heading
	fenced  bool   // within a block of code
	bold    bool
	code    bool
}

const cyan = "\x1b[36m"

// lineStart matches a possible beginning of the marker at the start of a line.
var lineStart = regexp.MustCompile("^ {0,9}(#{1,6} ?|`{1,2}|```[^`\n]*|[-*+] ?|> ?|\\*\\*)?$")

// render returns the styled text that is complete after s.
func (m *markdown) render(s string) string {
	s, m.held = m.held+s, ""
	var out strings.Builder
	for s != "" {
		if !m.within {
			line, _, whole := strings.Cut(s, "\n")
			if !whole && lineStart.MatchString(line) {
				m.held = s
				break
			}
			s = m.begin(&out, line, s)
			continue
		}
		at := strings.IndexAny(s, "\n*`")
		if m.fenced {
			at = strings.IndexByte(s, '\n')
		}
		if at < 0 {
			at = len(s)
		}
		out.WriteString(s[:at])
		if s = s[at:]; s == "*" || s == "**" && !m.bold {
			m.held = s
			break
		}
		s = m.marker(&out, s)
	}
	return out.String()
}

// flush returns the rest at the end of the text.
func (m *markdown) flush() string {
	var out strings.Builder
	out.WriteString(m.held)
	if m.bold || m.code || m.heading || m.fenced {
		out.WriteString(plain)
	}
	*m = markdown{}
	return out.String()
}

// begin writes the marker of a line and returns the text behind it.
func (m *markdown) begin(out *strings.Builder, line, s string) string {
	m.within = true
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	marks := len(text) - len(strings.TrimLeft(text, "#"))
	switch {
	case strings.HasPrefix(text, "```"):
		m.fenced = !m.fenced
		out.WriteString(dim + line + plain)
		if m.fenced {
			out.WriteString(cyan)
		}
		return s[len(line):]
	case m.fenced:
		return s
	case marks > 0 && marks <= 6 && strings.HasPrefix(text[marks:], " "):
		m.heading = true
		out.WriteString(bold)
		return s[len(indent)+marks+1:]
	case strings.HasPrefix(text, "- "), strings.HasPrefix(text, "* "), strings.HasPrefix(text, "+ "):
		out.WriteString(indent + "• ")
		return s[len(indent)+2:]
	case strings.HasPrefix(text, "> "):
		out.WriteString(indent + dim + "│ " + plain)
		return s[len(indent)+2:]
	}
	return s
}

// marker handles the end of a line or a marker at the start of s, and returns the text behind it.
func (m *markdown) marker(out *strings.Builder, s string) string {
	switch {
	case s == "":
		return s
	case s[0] == '\n':
		if m.heading || m.bold || m.code {
			out.WriteString(plain)
		}
		m.within, m.heading, m.bold, m.code = false, false, false, false
		out.WriteByte('\n')
		return s[1:]
	case s[0] == '`':
		m.code = !m.code
		m.style(out)
		return s[1:]
	case strings.HasPrefix(s, "**") && !m.code && (m.bold || s[2] != ' ' && s[2] != '\n'):
		m.bold = !m.bold
		m.style(out)
		return s[2:]
	}
	out.WriteByte(s[0])
	return s[1:]
}

// style writes the escape sequences of the current style.
func (m *markdown) style(out *strings.Builder) {
	out.WriteString(plain)
	if m.bold || m.heading {
		out.WriteString(bold)
	}
	if m.code {
		out.WriteString(cyan)
	}
}
