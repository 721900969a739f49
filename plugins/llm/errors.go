package llm

import (
	"cmp"
	"errors"

	"github.com/batonrun/baton/plugins"
)

// shown returns the client's view of err: a provider's failure in full, any other error unchanged.
func shown(err error) error {
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	return &plugins.Error{
		Code: cmp.Or(failed.Code, "provider_error"), Message: cmp.Or(failed.Message, "The model's provider failed"),
		Retryable: failed.Retryable,
	}
}
