package runtime

import (
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// maxSearches is how many searches a user may have under way at a time, waiting ones included. A search can read many
// rows.
const maxSearches = 8

var errSearches = refuse(KindOverloaded, "too_many_searches", "You may have %d searches under way at a time; wait for one of them", maxSearches)

// newSearches returns the pool of searches under way. Without accounts there is one user without a limit.
func newSearches(accounts bool) *quota.Pool {
	if !accounts {
		return nil
	}
	return quota.New(quota.Limits{PerUser: maxSearches})
}

// beginSearch counts a search for the acting user, even if it searches another user's runs, until end is called. It
// refuses a search over the limit.
func beginSearch(searches *quota.Pool, c Caller) (end func(), err error) {
	r, full := searches.Try(quota.OwnerOf(c.project, c.Actor()), 1)
	if full != quota.None {
		return nil, errSearches
	}
	return r.Release, nil
}

// searchFailed returns the error of a search as the caller is to see it.
func searchFailed(err error) error {
	if errors.Is(err, data.ErrTooSlow) {
		return &Error{
			Kind: KindUnavailable, Code: "too_slow", RetryAfter: time.Second,
			Detail: "The search took too long: add a word or a filter, or narrow the time range",
		}
	}
	return unavailable(err)
}
