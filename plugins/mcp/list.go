package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
)

// Limits on a server's list of tools.
const (
	maxTools   = 1000
	maxPages   = 1000
	maxListed  = 8 << 20 // bytes of all names, descriptions and schemas
	maxLeftOut = 10      // ignored tools that are logged individually
)

// list requests the server's tools.
func (s *Server) list(ctx context.Context, conn *connection) error {
	l := &listing{server: s, seen: map[string]bool{}}
	cursor, seen := "", map[string]bool{"": true}
	for range maxPages {
		page, next, err := conn.page(ctx, cursor)
		if err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		for i := range page {
			if err := l.add(&page[i]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			l.done()
			return nil
		}
		if seen[cursor] {
			return fmt.Errorf("the server's list has no end: the cursor %q came before", clip(cursor, maxName))
		}
		seen[cursor] = true
	}
	return fmt.Errorf("the server's list has more than %d pages", maxPages)
}

// page requests a page of the server's list.
func (c *connection) page(ctx context.Context, cursor string) ([]wireTool, string, error) {
	ctx, x := withExchange(ctx)
	_, err := c.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
	result, refused, _ := x.outcome()
	switch {
	case result != nil:
		tools, next := toolsOf(result)
		return tools, next, nil
	case refused != nil:
		return nil, "", refused
	}
	return nil, "", err
}

// listing is a list of tools in progress.
type listing struct {
	server  *Server
	tools   []*tool
	seen    map[string]bool // the server's names
	size    int             // of tools, in bytes
	leftOut int
}

// add adds a tool. It fails if the server has too many tools.
func (l *listing) add(t *wireTool) error {
	if allow := l.server.cfg.Allow; len(allow) > 0 && !matches(allow, t.Name) {
		return nil
	}
	if t.Name == "" || l.seen[t.Name] {
		if l.leftOut++; l.leftOut <= maxLeftOut {
			l.server.log.Warn("tool ignored, because it has no name or the name of another", "tool", clip(t.Name, maxName))
		}
		return nil
	}
	tool := l.server.tool(t)
	l.size += len(t.Name) + len(tool.info.Description) + len(tool.info.Parameters)
	if len(l.tools) == maxTools || l.size > maxListed {
		return fmt.Errorf("the server has more than %d tools, or %d bytes of tools", maxTools, maxListed)
	}
	l.seen[t.Name] = true
	l.tools = append(l.tools, tool)
	return nil
}

// done names and publishes the listed tools.
func (l *listing) done() {
	if l.leftOut > maxLeftOut {
		l.server.log.Warn("tools ignored", "tools", l.leftOut)
	}
	prefix := l.server.cfg.Name + "."
	same := map[string]int{}
	for _, t := range l.tools {
		same[fitting(prefix, t.name)]++
	}
	list := make([]plugins.Tool, len(l.tools))
	for i, t := range l.tools {
		name := fitting(prefix, t.name)
		if same[name] > 1 && name != prefix+t.name {
			name = hashed(name, t.name)
		}
		t.info.Name, list[i] = name, t
	}
	slices.SortFunc(list, func(a, b plugins.Tool) int { return strings.Compare(a.Info().Name, b.Info().Name) })
	l.server.tools.Store(&list)
}

// maxName limits a plugin's name.
const maxName = 64

// unfit matches characters that names of plugins cannot have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// fitting returns the name of a tool as a plugin. ASCII characters that do not fit become _; a name with others, or that is
// too long, gets a hash of the server's name.
func fitting(prefix, tool string) string {
	ascii := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return -1
		}
		return r
	}, tool)
	name := prefix + unfit.ReplaceAllString(ascii, "_")
	switch {
	case ascii == "":
		return hashed(prefix+"t", tool)
	case ascii != tool || len(name) > maxName:
		return hashed(name, tool)
	}
	return name
}

// hashed returns a name that is distinct for each tool.
func hashed(name, tool string) string {
	sum := sha256.Sum256([]byte(tool))
	hash := "_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
	return name[:min(len(name), maxName-len(hash))] + hash
}
