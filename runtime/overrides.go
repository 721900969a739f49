package runtime

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/data"
)

var errOverrides = refuse(KindForbidden, "forbidden", "Your role may not override the model of an agent")

// maxSystem limits instructions of an override, in bytes.
const maxSystem = 1 << 20

// checkOverrides refuses overrides that the caller may not give, that are not for an agent with a model, or that no provider accepts.
func (s *starting) checkOverrides(offered *host.Registry) error {
	req, o := s.req, s.req.Overrides
	if o == nil {
		return nil
	}
	if s.rt.cfg.Accounts && !s.c.calls() {
		return errOverrides
	}
	bad := func(of, why string) error { return refuseAt("/overrides"+of, "invalid_overrides", "%s", why) }
	agent, _ := offered.Agent(req.Agent)
	if a, ok := agent.(host.Overridable); !ok || !a.Overridable() {
		return bad("", "overrides need an agent that asks a model, named in agent")
	}
	p := o.Parameters
	switch {
	case len(req.Resume) > 0:
		return bad("", "Give resume or overrides, not both: an answer goes on with its run")
	case o.Model != "" && !ValidName(o.Model):
		return bad("/model", "model must be 1 to 200 characters without control characters")
	case o.Model != "" && escapesBudgets(&s.rt.cfg, o.Model):
		return bad("/model", "The model has no price, and there is a budget of money")
	case o.System != nil && len(*o.System) > maxSystem:
		return bad("/system", "system may have 1 MiB")
	case p == nil:
		return nil
	case p.Temperature != nil && (*p.Temperature < 0 || *p.Temperature > 2):
		return bad("/parameters/temperature", "temperature must be 0 to 2")
	case p.TopP != nil && (*p.TopP < 0 || *p.TopP > 1):
		return bad("/parameters/topP", "topP must be 0 to 1")
	case p.MaxTokens < 0:
		return bad("/parameters/maxTokens", "maxTokens must not be negative")
	case !plugins.ValidStop(p.Stop):
		return bad("/parameters/stop", "stop may have 16 texts of 1 to 200 bytes")
	}
	return nil
}

// escapesBudgets reports whether calls of a model cannot be counted by a budget of money.
func escapesBudgets(cfg *Config, model string) bool {
	_, priced := cfg.Prices.Models[model]
	return !priced && slices.ContainsFunc(cfg.Budgets, func(b data.Budget) bool { return b.Unit != data.UnitTokens })
}

// Overrides returns the overrides of a run that was read alone, or nil.
func Overrides(r *Run) *plugins.ModelOverrides {
	var in struct{ Overrides *plugins.ModelOverrides }
	if !bytes.Contains(r.Input, []byte(`"overrides"`)) || json.Unmarshal(r.Input, &in) != nil {
		return nil
	}
	return in.Overrides
}
