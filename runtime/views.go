package runtime

import (
	"context"
	"fmt"

	"github.com/batonrun/baton/runtime/data"
)

// SavedView is a list of runs that a user has saved.
type SavedView = data.SavedView

// Limits of a user's views.
const (
	maxViews     = 50
	maxViewQuery = 2 << 10 // bytes
)

// Views has the lists of runs that users have saved.
type Views struct {
	store  data.Saved
	member *Member
}

// Get returns the caller's views.
func (vs *Views) Get(ctx context.Context, c Caller) ([]SavedView, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	views, err := vs.store.Views(ctx, c.project, c.user)
	return views, unavailable(err)
}

// Put replaces the caller's views. Of two that are put at once the last one stays.
func (vs *Views) Put(ctx context.Context, c Caller, views []SavedView) error {
	if err := vs.member.admits(c); err != nil {
		return err
	}
	if len(views) > maxViews {
		return refuseAt("/items", "invalid_request", "A user may save %d views", maxViews)
	}
	names := make(map[string]bool, len(views))
	for i := range views {
		v := &views[i]
		place := fmt.Sprintf("/items/%d", i)
		switch {
		case !ValidName(v.Name):
			return refuseAt(place+"/name", "invalid_name", "A view's name must be 1 to 200 characters without control characters")
		case names[v.Name]:
			return refuseAt(place+"/name", "invalid_request", "There are two views %q", v.Name)
		case len(v.Query) > maxViewQuery:
			return refuseAt(place+"/query", "invalid_request", "A view's query may have %d bytes", maxViewQuery)
		}
		names[v.Name] = true
	}
	return unavailable(vs.store.PutViews(ctx, c.project, c.user, views))
}
