package remote_test

import (
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
)

// A secret is redacted even where a message is cut.
func TestFailure_CutMessageHidesSecret(t *testing.T) {
	t.Parallel()
	const secret = "first-half-second-half"
	s := serve(t, stream(started+`{"type":"RUN_ERROR","message":"`+strings.Repeat("x", 8<<10-10)+secret+`"}`))
	a := s.agent(t, func(cfg *remote.Config) { cfg.Headers = map[string]string{"Authorization": "Bearer " + secret} })
	res, err := plugintest.Execute(t.Context(), a, plugintest.Config{})
	if err != nil || res.Err == nil || strings.Contains(res.Err.Error(), "first") {
		t.Errorf("%v, %.20v … %v", err, res.Err, strings.TrimLeft(res.Err.Error(), "x"))
	}
}
