package wire

import (
	"cmp"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Me is the authenticated caller.
type Me struct {
	User      string `json:"user"`      // The user's name.
	ProjectID string `json:"projectId"` // The project of the request.
	// All projects of the user. The first is used by requests that name none.
	Projects []string `json:"projects"`
	Role     string   `json:"role" enum:"user,viewer,operator,admin"` // What the user may do in each project.
	// How the caller was authenticated. `none` if the server has no accounts.
	Authentication string     `json:"authentication" enum:"none,api-key,jwt,custom"`
	ExpiresAt      *time.Time `json:"expiresAt"` // Expiry of the credential. Null if it does not expire.
	Version        string     `json:"version"`   // The server's version.
	Currency       *string    `json:"currency"`  // Currency of costs. Null on a server without prices.
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

// Views are the saved views of a user.
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
