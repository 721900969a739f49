package clients

import "testing"

// The document is one that others can work with: it passes a linter, and a typed client that is generated from it calls.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	needs(t, "openapi")
	s := start(t)
	judge(t, "openapi", "generate.mjs", nil, "BATON_URL="+s.url(""))
}
