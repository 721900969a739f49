package llm

import (
	"cmp"
	"errors"

	"github.com/batonrun/baton/plugins"
)

// shown is err as clients see it: what a provider says of its failure, and of any other error nothing.
func shown(err error) error {
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	return &plugins.Error{
		Code: cmp.Or(failed.Code, "provider_error"), Message: cmp.Or(failed.Message, "The model's provider has failed"),
		Retryable: failed.Retryable,
	}
}
