package runtime

import "fmt"

// Role says what a caller may do in its project. Roles are ordered: each may do what those below it may. The zero
// Role is none, and may do nothing.
type Role uint8

// The roles, from least to most. A user sees, controls and deletes what is its own, a viewer sees all of the project, an
// operator controls it too (cancels, answers, appends, renames), an admin also deletes it.
const (
	RoleUser Role = iota + 1
	RoleViewer
	RoleOperator
	RoleAdmin
)

// roleNames are the roles as configuration and credentials write them.
var roleNames = [...]string{RoleUser: "user", RoleViewer: "viewer", RoleOperator: "operator", RoleAdmin: "admin"}

// ParseRole returns the role of exactly that name.
func ParseRole(name string) (Role, error) {
	for r := RoleUser; r <= RoleAdmin; r++ {
		if roleNames[r] == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("there is no role %.220q; the roles are user, viewer, operator and admin", name)
}

// String is the role's name.
func (r Role) String() string {
	if r < RoleUser || r > RoleAdmin {
		return "none"
	}
	return roleNames[r]
}

// Caller is who asks: a user in a project, with a role there. Every method that serves a request takes one, and
// answers "not found" for what it may not see. Only NewCaller makes one: the zero Caller is nobody, who is refused.
// Callers are equal when they may do the same and came from the same place.
type Caller struct {
	project, user string
	role          Role
	actor         string // who acts, when that is not the user
	origin        Origin
}

// Origin is where a request came from, for those who ask later who did what.
type Origin struct {
	Credential string // the id of the credential that it brought, never the secret; empty without accounts
	Address    string // the address of its client, as far as it is known
	Request    string // the request's id
	Home       string // the project that the credential is for where a request names none; empty for the caller's
}

// ErrNobody refuses the zero Caller.
var ErrNobody = refuse(KindUnauthorized, "unauthorized", "This server does not know who you are; send a credential that it takes")

// NewCaller returns the user of that name in a project. It fails for names that ValidName refuses, for the users "." and
// ".." and for a role that there is not.
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

// MustCaller is NewCaller for names that a program is written with. It panics where NewCaller fails.
func MustCaller(project, user string, role Role) Caller {
	c, err := NewCaller(project, user, role)
	if err != nil {
		panic("runtime: " + err.Error())
	}
	return c
}

// Project is the project that the caller asks in.
func (c Caller) Project() string { return c.project }

// User is whose threads and runs the caller means.
func (c Caller) User() string { return c.user }

// Role is what the caller may do.
func (c Caller) Role() Role { return c.role }

// Actor is who acts: the user, or whoever acts in its stead.
func (c Caller) Actor() string {
	if c.actor != "" {
		return c.actor
	}
	return c.user
}

// Home is the project whose user the caller is wherever its credential lets it ask: who has many projects is one caller.
func (c Caller) Home() string {
	if c.actor != "" || c.origin.Home == "" {
		return c.project
	}
	return c.origin.Home
}

// Origin is where the request came from.
func (c Caller) Origin() Origin { return c.origin }

// From returns the caller with where its request came from.
func (c Caller) From(o Origin) Caller {
	c.origin = o
	return c
}

// AsUser returns the caller with the least role: to it a name never means what is another's.
func (c Caller) AsUser() Caller {
	c.role = min(c.role, RoleUser)
	return c
}

// InSteadOf returns the caller with the eyes and the hands of another user of its project. It fails for a role below least,
// which is what it takes to do to others what the caller is about to do: RoleViewer, RoleOperator or RoleAdmin.
func (c Caller) InSteadOf(user string, least Role) (Caller, error) {
	if user != c.user && c.role < max(least, RoleViewer) {
		return Caller{}, errOthers
	}
	other, err := NewCaller(c.project, user, RoleUser)
	if err != nil {
		return Caller{}, errUser
	}
	other.actor, other.origin = c.Actor(), c.origin
	return other, c.check()
}

var (
	errOthers = refuse(KindForbidden, "forbidden", "Your role may not do this with the runs of others")
	errUser   = refuse(KindInvalid, "invalid_request", "A user must be 1 to 200 characters without control characters")
)

// check refuses nobody.
func (c Caller) check() error {
	if c.role == 0 {
		return ErrNobody
	}
	return nil
}

// sees reports whether what belongs to that user of the caller's project is the caller's to see.
func (c Caller) sees(user string) bool {
	return c.role >= RoleViewer || c.role == RoleUser && user == c.user
}

// only is the one user whose runs the caller sees, empty for one that sees the project's.
func (c Caller) only() string {
	if c.role >= RoleViewer {
		return ""
	}
	return c.user
}

// calls reports whether it is the caller's to have a tool called by itself: its own, as an operator, or in the stead of whoever it is.
func (c Caller) calls() bool {
	return c.role >= RoleOperator || c.actor != "" && c.actor != c.user // which takes no less: see InSteadOf
}

// changes reports whether it is the caller's to change.
func (c Caller) changes(user string) bool {
	return c.role >= RoleOperator || c.role >= RoleUser && user == c.user
}

// deletes reports whether it is the caller's to delete.
func (c Caller) deletes(user string) bool {
	return c.role >= RoleAdmin || c.role >= RoleUser && user == c.user
}
