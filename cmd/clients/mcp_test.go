package clients

import (
	"path/filepath"
	"testing"
)

// The official MCP client calls every tool, over HTTP and over the mcp command's pipes, and finds that what
// they return is what their schemas say.
func TestMCP(t *testing.T) {
	t.Parallel()
	needs(t, "mcp")
	s := start(t)
	judge(t, "mcp", "client.mjs", nil, "BATON="+binary, "BATON_URL="+s.url(""),
		"DATABASE=sqlite:"+filepath.Join(s.dir, "baton.db"), "OTHER=sqlite:"+filepath.Join(t.TempDir(), "other.db"))
}
