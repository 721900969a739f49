package clients

import "testing"

// The OpenAPI document passes a linter, and a typed client that is generated from it works.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	needs(t, "openapi")
	s := start(t)
	judge(t, "openapi", "generate.mjs", nil, "BATON_URL="+s.url(""))
}
