package attachments

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
)

// patience is how long a transfer waits for others to end: most are soon done.
const patience = 5 * time.Second

// reserve counts a transfer of a user until release is called: each has a connection, a file or a buffer, however slow its client is.
// It fails with an *runtime.Error.
func reserve(ctx context.Context, p *quota.Pool, o quota.Owner) (release func(), err error) {
	if r, full := p.Try(o, 1); full == quota.None {
		return r.Release, nil
	} else if full == quota.User {
		return nil, &runtime.Error{
			Kind: runtime.KindOverloaded, Code: "too_many_transfers", RetryAfter: 5 * time.Second,
			Detail: fmt.Sprintf("%d files of a user may be on their way at a time", p.Limits().PerUser),
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := p.Take(ctx, o, 1)
	if err != nil {
		return nil, errBusy
	}
	return r.Release, nil
}

var errBusy = &runtime.Error{
	Kind: runtime.KindUnavailable, Code: "overloaded", RetryAfter: 2 * time.Second,
	Detail: "As many files are on their way as the server may have; try again soon",
}

// reserved is a body that gives its reservation back when it is closed.
type reserved struct {
	io.ReadCloser
	release func()
}

func (r reserved) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}
