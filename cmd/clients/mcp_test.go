package clients

import (
	"path/filepath"
	"testing"
)

// The official MCP client calls every tool, over HTTP and over the pipes of the command mcp, and checks the results with their
// schemas.
func TestMCP(t *testing.T) {
	t.Parallel()
	needs(t, "mcp")
	alsoBalanced(t, func(t *testing.T) {
		s := start(t)
		judge(t, "mcp", "client.mjs", nil, "BATON="+binary, "BATON_URL="+s.url(""),
			"DATABASE="+s.database(), "OTHER=sqlite:"+filepath.Join(t.TempDir(), "other.db"))
	})
}
