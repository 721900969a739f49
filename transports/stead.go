package transports

import "github.com/batonrun/baton/runtime"

// InStead lets a caller whose role sees others' runs say whose a request is about: the name of a run alone may be ambiguous to it. No
// user leaves the caller as it is. Least is the role that does this to what is another's.
func InStead(who runtime.Caller, user string, least runtime.Role) (runtime.Caller, error) {
	if user == "" {
		return who, nil
	}
	return who.InSteadOf(user, least)
}
