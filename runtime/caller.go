package runtime

import (
	"errors"
	"fmt"
)

// Role is the set of actions that a caller may do in its project. Roles are ordered: each role includes the roles
// below it. The zero Role may do nothing.
type Role uint8

// The roles, from least to most. A user sees, controls and deletes its own threads and runs. A viewer also sees
// everything in the project, an operator also controls it (cancels, answers, appends, renames), and an admin also
// deletes it.
const (
	RoleUser Role = iota + 1
	RoleViewer
	RoleOperator
	RoleAdmin
)

// roleNames are the names of the roles in configuration and credentials.
var roleNames = [...]string{RoleUser: "user", RoleViewer: "viewer", RoleOperator: "operator", RoleAdmin: "admin"}

// ParseRole returns the role with exactly that name.
func ParseRole(name string) (Role, error) {
	for r := RoleUser; r <= RoleAdmin; r++ {
		if roleNames[r] == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("there is no role %.220q; the roles are user, viewer, operator and admin", name)
}

// String returns the role's name.
func (r Role) String() string {
	if r < RoleUser || r > RoleAdmin {
		return "none"
	}
	return roleNames[r]
}

// Caller is the author of a request: a user in a project, with a role there. Every method that serves a request takes
// a Caller, and answers "not found" for things that the Caller may not see. Only NewCaller makes one; the zero Caller
// is refused. Two Callers are equal if they have the same rights and the same origin.
type Caller struct {
	project, user string
	role          Role
	actor         string // the acting user, if it is not the user itself
	acts          Role   // the actor's role, if it acts in the user's stead
	origin        Origin
}

// Origin is the source of a request, for the audit.
type Origin struct {
	Credential string // the id of the request's credential, never the secret; empty without accounts
	Address    string // the client's address, as far as it is known
	Request    string // the request's id
	Home       string // the credential's default project, for requests that name none; empty means the caller's
}

// ErrNobody refuses the zero Caller.
var ErrNobody = refuse(KindUnauthorized, "unauthorized", "This server does not know who you are; send a credential that it takes")

// NewCaller returns a Caller for a user in a project. It fails for names that ValidName refuses, for the users "."
// and ".." and for an unknown role.
func NewCaller(project, user string, role Role) (Caller, error) {
	switch {
	case !ValidName(project):
		return Caller{}, fmt.Errorf("a project must be 1 to 200 characters without control characters, not %.220q", project)
	case !ValidName(user) || user == "." || user == "..":
		return Caller{}, fmt.Errorf("a user must be 1 to 200 characters without control characters, not %.220q", user)
	case role < RoleUser || role > RoleAdmin:
		return Caller{}, fmt.Errorf("there is no role %d", role)
	}
	return Caller{project: project, user: user, role: role}, nil
}

// MustCaller is NewCaller for constant names. It panics if NewCaller fails.
func MustCaller(project, user string, role Role) Caller {
	c, err := NewCaller(project, user, role)
	if err != nil {
		panic("runtime: " + err.Error())
	}
	return c
}

// Project returns the project of the caller's request.
func (c Caller) Project() string { return c.project }

// User returns the user that owns the threads and runs of the caller's request.
func (c Caller) User() string { return c.user }

// Role returns the caller's role.
func (c Caller) Role() Role { return c.role }

// Actor returns the acting user: the user itself, or another user that acts for it.
func (c Caller) Actor() string {
	if c.actor != "" {
		return c.actor
	}
	return c.user
}

// Home returns the default project of the caller's credential, so that a user with many projects counts as one
// caller. It returns the caller's project if the credential has none, or the caller acts for another user.
func (c Caller) Home() string {
	if c.actor != "" || c.origin.Home == "" {
		return c.project
	}
	return c.origin.Home
}

// Origin returns the source of the request.
func (c Caller) Origin() Origin { return c.origin }

// From returns the caller with another origin.
func (c Caller) From(o Origin) Caller {
	c.origin = o
	return c
}

// AsUser returns the caller with at most RoleUser, so that a name never refers to a thread or run of another user.
func (c Caller) AsUser() Caller {
	c.role = min(c.role, RoleUser)
	return c
}

// InSteadOf returns a caller that acts for another user of its project. It fails if the caller's role is below least,
// the role that the intended action on other users' data requires: RoleViewer, RoleOperator or RoleAdmin.
func (c Caller) InSteadOf(user string, least Role) (Caller, error) {
	if user != c.user && c.role < max(least, RoleViewer) {
		return Caller{}, errOthers
	}
	other, err := NewCaller(c.project, user, RoleUser)
	if err != nil {
		return Caller{}, errUser
	}
	other.actor, other.acts, other.origin = c.Actor(), c.rank(), c.origin
	return other, c.check()
}

var (
	errOthers = refuse(KindForbidden, "forbidden", "Your role may not do this with the runs of others")
	errUser   = refuse(KindInvalid, "invalid_request", "A user must be 1 to 200 characters without control characters")
)

// check refuses the zero Caller.
func (c Caller) check() error {
	if c.role == 0 {
		return ErrNobody
	}
	return nil
}

// sees reports whether the caller may see the data of that user of its project.
func (c Caller) sees(user string) bool {
	return c.role >= RoleViewer || c.role == RoleUser && user == c.user
}

// lookupErr returns the error of a lookup of something of a user: notFound if it does not exist, or if the caller may not see it, which must
// look the same.
func (c Caller) lookupErr(err error, user string, notFound *Error) error {
	if errors.Is(err, ErrNotFound) || err == nil && !c.sees(user) {
		return notFound
	}
	return unavailable(err)
}

// only returns the only user whose runs the caller sees, or "" if it sees all runs of the project.
func (c Caller) only() string {
	if c.role >= RoleViewer {
		return ""
	}
	return c.user
}

// rank returns the role of whoever acts. In another user's stead, it finds what that user finds, and decides what its own role may.
func (c Caller) rank() Role { return max(c.role, c.acts) }

// calls reports whether the caller may run a tool by itself: as an operator, also for another user.
func (c Caller) calls() bool { return c.rank() >= RoleOperator }

// changes reports whether the caller may change the data of that user.
func (c Caller) changes(user string) bool {
	return c.role >= RoleOperator || c.role >= RoleUser && user == c.user
}

// answers reports whether the caller may answer questions of that user's runs. A viewer may not, also in the user's stead.
func (c Caller) answers(user string) bool {
	return c.changes(user) && c.acts != RoleViewer
}

// deletes reports whether the caller may delete the data of that user.
func (c Caller) deletes(user string) bool {
	return c.role >= RoleAdmin || c.role >= RoleUser && user == c.user
}
