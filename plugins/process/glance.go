package process

import (
	"encoding/json"
	"strings"
)

// glance makes out to which request a line belongs that is no message. Write feeds it the line, in pieces of any length.
type glance struct {
	depth           int
	quoted, escaped bool
	token           []byte    // the latest one
	names           [3]string // of the members that it is in, by depth
	seen            map[string]string
}

const maxToken = 256 // bytes of a token that are kept

// Write never fails.
func (g *glance) Write(line []byte) (int, error) {
	for _, c := range line {
		g.next(c)
	}
	return len(line), nil
}

func (g *glance) next(c byte) {
	switch {
	case g.quoted:
		g.add(c)
		g.quoted = c != '"' || g.escaped
		g.escaped = c == '\\' && !g.escaped
	case c == '"':
		g.token, g.quoted = append(g.token[:0], c), true
	case c == '{', c == '[':
		g.depth++
		g.token = g.token[:0]
		g.name("")
	case c == ':':
		var name string
		_ = json.Unmarshal(g.token, &name)
		g.token = g.token[:0]
		g.name(name)
	case c == ',', c == '}', c == ']':
		g.note()
		if c != ',' && g.depth > 0 {
			g.depth--
		}
	case c > ' ':
		g.add(c)
	}
}

func (g *glance) add(c byte) {
	if len(g.token) < maxToken {
		g.token = append(g.token, c)
	}
}

func (g *glance) name(name string) {
	if g.depth < len(g.names) {
		g.names[g.depth] = name
	}
}

// note notes the value of a member of the message or of its params.
func (g *glance) note() {
	if g.depth > 0 && g.depth < len(g.names) && len(g.token) > 0 {
		if g.seen == nil {
			g.seen = make(map[string]string)
		}
		path := strings.Join(g.names[1:g.depth+1], ".")
		if _, again := g.seen[path]; !again {
			g.seen[path] = string(g.token)
		}
	}
	g.token = g.token[:0]
}

// message returns the id, the method and the run of the message, as far as they are there.
func (g *glance) message() (m message) {
	if id := json.RawMessage(g.seen["id"]); json.Valid(id) && string(id) != "null" {
		m.ID = id
	}
	_ = json.Unmarshal([]byte(g.seen["method"]), &m.Method)
	if run := json.RawMessage(g.seen["params.run"]); json.Valid(run) {
		m.Params = encode(map[string]json.RawMessage{"run": run})
	}
	return m
}
