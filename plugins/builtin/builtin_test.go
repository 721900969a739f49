package builtin_test

import (
	"testing"

	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/host"
)

func TestPlugins_AreValid(t *testing.T) {
	var r host.Registry
	if err := r.Add(builtin.Plugins()...); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	for _, p := range builtin.Plugins() {
		if p.Info().Description == "" {
			t.Errorf("%s has no description", p.Info().Name)
		}
	}
	for _, tool := range r.Tools() {
		if tool.Info().Parameters == nil {
			t.Errorf("%s has no parameters", tool.Info().Name)
		}
	}
}
