package clients

import "testing"

// CopilotKit's core works with Baton as its runtime.
func TestCopilotKit(t *testing.T) {
	t.Parallel()
	needs(t, "copilotkit")
	alsoBalanced(t, func(t *testing.T) {
		s := start(t)
		judge(t, "copilotkit", "core.mjs", nil, "BATON_URL="+s.url(""), "COPILOTKIT_TELEMETRY_DISABLED=true")
	})
}
