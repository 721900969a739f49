package transports

import "github.com/batonrun/baton/runtime"

// InStead resolves the user of a request by a caller whose role sees others' runs, as a run's name alone may be ambiguous. An
// empty user returns the caller unchanged. Least is the role needed to act on another user's run.
func InStead(who runtime.Caller, user string, least runtime.Role) (runtime.Caller, error) {
	if user == "" {
		return who, nil
	}
	return who.InSteadOf(user, least)
}
