package llm

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/batonrun/baton/plugins"
)

// account are the codes of failures that are about the operator's account at the provider.
var account = []string{"invalid_api_key", "permission_denied", "quota_exceeded"}

// ofAccount reports whether a failure is about the operator's key or account, whose details users must not read.
func (e *Error) ofAccount() bool {
	return slices.Contains(account, e.Code) || e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden && e.Code != "content_refused"
}

// report logs a failure of which clients see only that it is about the operator's account.
func (t *turn) report(provider, model string, err error) {
	if failed, ok := errors.AsType[*Error](err); ok && failed.ofAccount() {
		in, why := &t.run.Input, failed.Message
		if t.run.Silent() {
			why = ""
		}
		cmp.Or(t.a.cfg.Log, slog.Default()).Warn("the model's provider refuses the server's account", "agent", t.a.cfg.Name, "provider", provider, "model", model,
			"code", failed.Code, "status", failed.Status, "error", why, "run", in.RunID, "thread", in.ThreadID, "user", in.User, "project", in.Project)
	}
}

// shown returns the client's view of err: a provider's failure in full, unless it is about the operator's account; any other error
// unchanged.
func shown(err error) error {
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	if failed.ofAccount() {
		return &plugins.Error{
			Code: cmp.Or(failed.Code, "permission_denied"), Message: "The model's provider refuses this server's account; the server's log tells its operator why",
			Retryable: failed.Retryable,
		}
	}
	return &plugins.Error{
		Code: cmp.Or(failed.Code, "provider_error"), Message: cmp.Or(failed.Message, "The model's provider failed"),
		Retryable: failed.Retryable,
	}
}
