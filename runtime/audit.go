package runtime

import (
	"context"

	"github.com/batonrun/baton/runtime/answer"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// by returns the audit entry for the caller's action, or none if the audit is off.
func (rt *Runtime) by(c Caller, action string) decide.By {
	if !rt.cfg.Audit {
		return decide.By{}
	}
	return decide.By{Request: c.Audit(action)}
}

// responder identifies the caller in the answers that it gives. Without accounts everybody operates the server.
func (rs *Runs) responder(c Caller) answer.Responder {
	return answer.Responder{
		User: c.Actor(), Role: c.rank().String(), Operates: c.calls() || !rs.accounts,
		Administers: c.rank() >= RoleAdmin || !rs.accounts, Alone: !rs.accounts,
	}
}

// mayAnswer reports whether the caller may answer a question of a user's run.
func (rs *Runs) mayAnswer(c Caller, in *data.Interrupt, user string) bool {
	return c.answers(user) && answer.MayAnswer(in, user, rs.responder(c)) == nil
}

// Audit returns an audit entry for an action of the caller.
func (c Caller) Audit(action string) *Audit {
	return &Audit{
		Project: c.project, Actor: c.Actor(), Action: action,
		Credential: c.origin.Credential, Address: c.origin.Address, Request: c.origin.Request,
	}
}

// AuditOf lists the audit entries of the caller's project, latest first. Only admins may call it.
func (rt *Runtime) AuditOf(ctx context.Context, c Caller, f AuditFilter) (Page[Audit], error) {
	if err := c.check(); err != nil {
		return Page[Audit]{}, err
	}
	if c.role < RoleAdmin {
		return Page[Audit]{}, errAdmins
	}
	for _, name := range []string{f.Actor, f.Action, f.User, f.Run} {
		if name != "" && !ValidName(name) {
			return Page[Audit]{Counted: f.Count}, nil // no entry has it
		}
	}
	f.Project = c.project
	explain := unavailable
	if f.Searches() {
		end, err := beginSearch(rt.Runs.searches, c)
		if err != nil {
			return Page[Audit]{}, err
		}
		defer end()
		explain = searchFailed
	}
	page, err := rt.store.Audit(ctx, f)
	return page, explain(err)
}

var errAdmins = refuse(KindForbidden, "forbidden", "Your role may not do this: it is for admins")
