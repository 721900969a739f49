package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Threads lists the caller's own threads, without their states, those with the latest activity first, and
// counts all, up to 10 000.
func (rt *Runtime) Threads(ctx context.Context, c Caller, f ThreadFilter) ([]ListedThread, int, error) {
	f.Project, f.User = c.Project, c.User
	threads, total, err := rt.store.Threads(ctx, f)
	return threads, total, unavailable(err)
}

// ThreadPatch says what to change of a thread; what is nil stays.
type ThreadPatch struct {
	Title    *string          // "" for none; at most 200 characters
	Metadata *json.RawMessage // an object in the place of the old one, null for none; at most 64 KiB
}

// What a thread's own data may hold.
const (
	maxTitle    = 200 // characters
	maxMetadata = 64 << 10
)

// UpdateThread changes what people say of a thread, and returns it as Threads lists it. It is not an activity:
// the thread keeps its place in the list.
func (rt *Runtime) UpdateThread(ctx context.Context, c Caller, name string, p ThreadPatch) (ListedThread, error) {
	if err := rt.admits(); err != nil {
		return ListedThread{}, err
	}
	if err := p.check(); err != nil {
		return ListedThread{}, err
	}
	found, err := rt.ownThread(ctx, c, name)
	if err != nil {
		return ListedThread{}, err
	}
	var listed ListedThread
	err = rt.com.do(func(ctx context.Context, tx Tx, _ *outcome) error {
		th, err := tx.LockThread(found.Key)
		if err != nil {
			return threadGone(err)
		}
		if p.Title != nil {
			th.Title = *p.Title
		}
		if p.Metadata != nil {
			th.Metadata = nil
			if m := *p.Metadata; string(m) != "null" {
				th.Metadata = m
			}
		}
		if p != (ThreadPatch{}) {
			if err := tx.Put(&th); err != nil {
				return err
			}
		}
		listed, err = tx.ListedThread(ctx, th.Key)
		return err
	})
	return listed, unavailable(err)
}

// check refuses what a thread cannot hold. It compacts the metadata.
func (p *ThreadPatch) check() error {
	if t := p.Title; t != nil && (utf8.RuneCountInString(*t) > maxTitle || !utf8.ValidString(*t) || strings.ContainsFunc(*t, unicode.IsControl)) {
		return refuse(KindInvalid, "invalid_title", "title must be at most %d characters without control characters", maxTitle)
	}
	if p.Metadata == nil {
		return nil
	}
	var compact bytes.Buffer
	if !utf8.Valid(*p.Metadata) || json.Compact(&compact, *p.Metadata) != nil || compact.String() != "null" && compact.Bytes()[0] != '{' {
		return refuse(KindInvalid, "invalid_request", "metadata must be an object")
	}
	if compact.Len() > maxMetadata {
		return refuse(KindTooLarge, "metadata_too_large", "A thread's metadata may hold %d bytes", maxMetadata)
	}
	m := json.RawMessage(compact.Bytes())
	p.Metadata = &m
	return nil
}

// deletedAtOnce is how many rows of a thread go in one transaction, so that a long thread does not hold up
// the commits of runs.
const deletedAtOnce = 500

// DeleteThread removes a thread with its runs and their events; runs that are not over are cancelled first.
// Its readers come to their end. A long thread goes in parts, and is there with what is left of it until
// DeleteThread returns.
func (rt *Runtime) DeleteThread(ctx context.Context, c Caller, name string) error {
	if err := rt.admits(); err != nil {
		return err
	}
	th, err := rt.ownThread(ctx, c, name)
	if err != nil {
		return err
	}
	for {
		done, open, err := rt.deletePart(th.Key)
		if done || err != nil {
			return unavailable(err)
		}
		if err := rt.cancelAll(ctx, open); err != nil {
			return unavailable(err)
		}
	}
}

// deletePart removes some of the thread, or returns its open runs when one of them is running: that must be
// cancelled first, and the others with it, so that none takes its place.
func (rt *Runtime) deletePart(key int64) (done bool, open []Run, err error) {
	err = rt.com.do(func(ctx context.Context, tx Tx, out *outcome) error {
		done, open = false, nil
		if _, err := tx.LockThread(key); err != nil {
			return threadGone(err)
		}
		runs, err := tx.OpenRuns(ctx, key)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(runs, func(r Run) bool { return r.Status == Running }) {
			open = runs
			return nil
		}
		if done, err = tx.DeleteThread(key, deletedAtOnce); err != nil {
			return err
		}
		out.thread, out.cut, out.gone = key, true, done
		return rt.afterRun(ctx, tx, key, out, nil)
	})
	return done, open, err
}

// ownThread finds a thread the caller may change.
func (rt *Runtime) ownThread(ctx context.Context, c Caller, name string) (Thread, error) {
	th, err := rt.Thread(ctx, c, name)
	if err == nil && c.Role == RoleViewer && th.User != c.User {
		return Thread{}, refuse(KindForbidden, "forbidden", "Your role may not change this thread")
	}
	return th, err
}

// threadGone is what a caller is told of a thread that was deleted after it was found.
func threadGone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return ErrThreadNotFound
	}
	return err
}
