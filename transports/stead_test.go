package transports_test

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
)

func TestInStead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		role         runtime.Role
		user         string
		least        runtime.Role // 0 for what a viewer may
		sees         string
		as           runtime.Role
		refusedToAsk bool
	}{
		{role: runtime.RoleUser, sees: "ann", as: runtime.RoleUser},
		{role: runtime.RoleUser, user: "ann", least: runtime.RoleOperator, sees: "ann", as: runtime.RoleUser},
		{role: runtime.RoleUser, user: "bob", refusedToAsk: true},
		{role: runtime.RoleViewer, sees: "ann", as: runtime.RoleViewer},
		{role: runtime.RoleViewer, user: "bob", sees: "bob", as: runtime.RoleUser},
		{role: runtime.RoleViewer, user: "bob", least: runtime.RoleOperator, refusedToAsk: true},
		{role: runtime.RoleViewer, user: "ann", least: runtime.RoleOperator, sees: "ann", as: runtime.RoleUser},
		{role: runtime.RoleOperator, user: "bob", least: runtime.RoleOperator, sees: "bob", as: runtime.RoleUser},
		{role: runtime.RoleAdmin, user: "bob", least: runtime.RoleOperator, sees: "bob", as: runtime.RoleUser},
		{role: runtime.RoleOperator, user: "bob", least: runtime.RoleAdmin, refusedToAsk: true},
		{role: runtime.RoleAdmin, user: "bob", least: runtime.RoleAdmin, sees: "bob", as: runtime.RoleUser},
	} {
		got, err := transports.InStead(runtime.MustCaller("p", "ann", test.role), test.user, test.least)
		if test.refusedToAsk {
			if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Kind != runtime.KindForbidden {
				t.Errorf("%+v: got %v, %v", test, got, err)
			}
			continue
		}
		if err != nil || got.Project() != "p" || got.User() != test.sees || got.Role() != test.as || got.Actor() != "ann" {
			t.Errorf("%+v: got %v, %v", test, got, err)
		}
	}
}
