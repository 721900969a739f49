package wire

import (
	"cmp"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Me is the caller as the server sees it.
type Me struct {
	User           string     `json:"user"`
	ProjectID      string     `json:"projectId"` // the one that the request means
	Projects       []string   `json:"projects"`  // all of the user's; the first is the default project
	Role           string     `json:"role"`
	Authentication string     `json:"authentication"` // none, api-key, jwt or custom
	ExpiresAt      *time.Time `json:"expiresAt"`      // of the credential; null for never
	Version        string     `json:"version"`        // the server's
	Currency       *string    `json:"currency"`       // of costs; null on a server without prices
}

// NewMe returns a caller with the scheme of its credential, custom for one without a name, the credential's end, and
// the currency of costs, which may be empty.
func NewMe(who runtime.Caller, projects []string, scheme string, expires time.Time, version, currency string) Me {
	m := Me{
		User: who.User(), ProjectID: who.Project(), Projects: slices.Clone(projects), Role: who.Role().String(),
		Authentication: cmp.Or(scheme, "custom"), Version: version, Currency: orNull(currency),
	}
	if !expires.IsZero() {
		m.ExpiresAt = stampOrNull(&expires)
	}
	return m
}

// Views are a user's saved lists of runs.
type Views struct {
	Items []runtime.SavedView `json:"items"`
}

// NewViews returns views as the API shows them.
func NewViews(views []runtime.SavedView) Views {
	return Views{Items: append([]runtime.SavedView{}, views...)}
}

// DecodeViews reads the body of a request to replace a user's views. It fails as DecodeRun does.
func DecodeViews(body []byte) ([]runtime.SavedView, error) {
	r := read(body)
	var views []runtime.SavedView
	if !r.into(&views, "items", "an array of objects with the strings name and query") && r.err == nil {
		r.err = refuseMember("items", codeRequest, "The member items is missing")
	}
	return views, r.err
}
