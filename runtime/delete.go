package runtime

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// Delete removes a run that is over, with its events. Readers meet the gap as docs/protocol.md says in 2.7. A long
// run is deleted in parts, its events first, and its remainder stays visible until Delete returns; if the run starts
// again meanwhile, the remainder stays. If the process ends first, the next one completes the deletion before it
// serves requests; on PostgreSQL a server does within seconds.
func (rt *Runtime) Delete(ctx context.Context, c Caller, name string) error {
	if err := rt.Member.writes(); err != nil {
		return err
	}
	found, err := rt.Runs.owned(ctx, c, name)
	if err != nil {
		return err
	}
	if !c.deletes(found.User) {
		return refuse(KindForbidden, "forbidden", "Your role may not delete this run")
	}
	return rt.carryThrough(func() error {
		for note := rt.by(c, "delete"); ; note = (decide.By{}) {
			out, err := rt.work.Decide(quota.Owner{}, &decide.Delete{Thread: found.ThreadKey, Run: found.Key, Project: c.project, Limit: rt.cfg.DeletedAtOnce, By: note})
			if err != nil || !out.Removed.Left {
				return unavailable(err)
			}
		}
	})
}

// DeleteThread removes a thread with its runs and their events; runs that are not over are cancelled first. Cursors
// into its log end. A long thread is deleted in parts, and its remainder stays visible until DeleteThread returns; if
// the process ends first, the deletion is completed as in Delete.
func (rt *Runtime) DeleteThread(ctx context.Context, c Caller, name string) error {
	if err := rt.Member.admits(c); err != nil {
		return err
	}
	th, err := rt.Threads.own(ctx, c, name)
	if err != nil {
		return err
	}
	if !c.deletes(th.User) {
		return refuse(KindForbidden, "forbidden", "Your role may not delete this thread")
	}
	return rt.carryThrough(func() error {
		if err := rt.deleteThread(th.Key, c.project, rt.by(c, "delete")); err != nil {
			return err
		}
		rt.Uploads.drop(ctx)
		return nil
	})
}

// deleteThread removes a thread and records the request once. It does not remove attachments that lose their last
// reference.
func (rt *Runtime) deleteThread(key int64, project string, by decide.By) error {
	note := by
	for {
		out, err := rt.work.Decide(quota.Owner{}, &decide.Delete{Thread: key, Project: project, Limit: rt.cfg.DeletedAtOnce, By: note})
		if err == nil {
			note = decide.By{}
		}
		switch {
		case out.Gone:
			return nil
		case errors.Is(err, decide.ErrRunning): // cancel all open runs, so that none takes the place of another
			slices.Reverse(out.Open)
			err = rt.work.CancelAll(out.Open, by)
		}
		if err != nil {
			rt.commits.Add(&commit.Item{Command: &decide.Look{Thread: key}}) // let the rest of the thread go on
			return unavailable(err)
		}
	}
}

// DeleteUser removes the data that a user of the caller's project has: its files, and its threads with their runs,
// messages and events, and the remembered answers to its requests. Runs that are not over are cancelled first. Threads
// that the user begins and files that it uploads after the call stay. Only the user and admins may call it. The audit
// entries about the user stay. If it fails, another call removes the rest.
func (rt *Runtime) DeleteUser(ctx context.Context, c Caller, user string) error {
	if err := rt.Member.admits(c); err != nil {
		return err
	}
	if !c.deletes(user) {
		return errOthers
	}
	if !ValidName(user) {
		return errUser
	}
	return rt.carryThrough(func() error { return rt.deleteUser(ctx, c, user) })
}

func (rt *Runtime) deleteUser(ctx context.Context, c Caller, user string) error {
	begun, err := rt.Member.store.Now(ctx) // threads have the database's time, attachments the process's
	if err != nil {
		return unavailable(err)
	}
	if _, err := rt.Uploads.Expire(ctx, c.project, user, time.Now(), false); err != nil {
		return unavailable(err)
	}
	if err := rt.Views.store.PutViews(ctx, c.project, user, nil); err != nil {
		return unavailable(err)
	}
	deletes := func(*ListedThread) bool { return true } // the list is latest first: later threads come before the first page
	for {
		n, err := rt.deleteThreads(ctx, c, user, deletes)
		if err != nil {
			return err
		}
		if n == 0 {
			rt.Uploads.drop(ctx)
			return nil
		}
		deletes = func(th *ListedThread) bool { return !th.CreatedAt.After(begun) }
	}
}

// deleteThreads removes those of the user's threads, and returns how many it found. A thread that is used meanwhile changes its place in
// the list and may be missed.
func (rt *Runtime) deleteThreads(ctx context.Context, c Caller, user string, deletes func(*ListedThread) bool) (n int, err error) {
	f := ThreadFilter{Project: c.project, User: user, Limit: 100}
	for {
		page, err := rt.store.Threads(ctx, f)
		if err != nil {
			return n, unavailable(err)
		}
		if len(page.Rows) > 0 {
			last := &page.Rows[len(page.Rows)-1]
			f.BeforeTime, f.BeforeKey = last.UpdatedAt, last.Key
		}
		meant := slices.DeleteFunc(page.Rows, func(th ListedThread) bool { return !deletes(&th) })
		if err := rt.cancelThreads(c, meant); err != nil {
			return n, err
		}
		for i := range meant {
			th := &meant[i]
			n++
			if err := rt.deleteThread(th.Key, c.project, rt.by(c, "delete")); err != nil && !errors.Is(err, ErrThreadNotFound) {
				return n, err
			}
			if ctx.Err() != nil { // the client has disconnected
				return n, context.Cause(ctx)
			}
		}
		if !page.More {
			return n, nil
		}
	}
}

// cancelledAtOnce is how many threads' runs are cancelled at the same time: the servers that execute them may be slow to answer.
const cancelledAtOnce = 32

// cancelThreads cancels the open runs of threads. It fails unless all have ended.
func (rt *Runtime) cancelThreads(c Caller, threads []ListedThread) error {
	var all errgroup.Group
	all.SetLimit(cancelledAtOnce)
	for i := range threads {
		th := &threads[i]
		if th.Status == "" || th.Status.Final() {
			continue
		}
		all.Go(func() error {
			out, err := rt.work.Decide(quota.Owner{}, &decide.Look{Thread: th.Key})
			if errors.Is(err, ErrThreadNotFound) { // another request has deleted it meanwhile
				return nil
			}
			if err == nil {
				slices.Reverse(out.Open)
				err = rt.work.CancelAll(out.Open, rt.by(c, "delete"))
			}
			return unavailable(err)
		})
	}
	return all.Wait()
}
