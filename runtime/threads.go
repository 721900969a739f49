package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
)

// Threads lists the caller's own threads, without their states, latest activity first.
func (rt *Runtime) Threads(ctx context.Context, c Caller, f ThreadFilter) (Page[ListedThread], error) {
	return rt.threads(ctx, c, c.user, f)
}

// ThreadsOfAll lists the threads that the caller may see: its own, or those of all users of its project.
func (rt *Runtime) ThreadsOfAll(ctx context.Context, c Caller, f ThreadFilter) (Page[ListedThread], error) {
	return rt.threads(ctx, c, c.only(), f)
}

// threads lists the threads of a user, or with "" of the caller's project.
func (rt *Runtime) threads(ctx context.Context, c Caller, user string, f ThreadFilter) (Page[ListedThread], error) {
	if err := c.check(); err != nil {
		return Page[ListedThread]{}, err
	}
	if err := checkText(f.Text); err != nil {
		return Page[ListedThread]{}, err
	}
	f.Project, f.User = c.project, user
	if f.Searches() {
		end, err := rt.search(c)
		if err != nil {
			return Page[ListedThread]{}, err
		}
		defer end()
	}
	threads, err := rt.store.Threads(ctx, f)
	return threads, unavailable(err)
}

// Users lists the users with threads in the caller's project. With accounts it requires a role that sees all of them.
func (rt *Runtime) Users(ctx context.Context, c Caller, f UserFilter) (Page[ThreadUser], error) {
	if err := c.check(); err != nil {
		return Page[ThreadUser]{}, err
	}
	if c.role < RoleViewer && rt.cfg.Accounts {
		return Page[ThreadUser]{}, errViewers
	}
	if err := checkText(f.Text); err != nil {
		return Page[ThreadUser]{}, err
	}
	f.Project = c.project
	if f.Searches() {
		end, err := rt.search(c)
		if err != nil {
			return Page[ThreadUser]{}, err
		}
		defer end()
	}
	users, err := rt.store.Users(ctx, f)
	return users, unavailable(err)
}

// ThreadPatch is a change of a thread; nil fields stay unchanged.
type ThreadPatch struct {
	Title    *string          // "" for none; at most 200 characters
	Metadata *json.RawMessage // an object that replaces the old one, null for none; at most 64 KiB
	Archived *bool            // whether the thread is archived; only lists show it
}

// Limits of a thread's title and metadata.
const (
	maxTitle    = 200 // characters
	maxMetadata = 64 << 10
)

// UpdateThread changes a thread's title, metadata or archived mark, and returns the thread as Threads lists it. The
// update is not an activity: the thread keeps its place in the list.
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
	patch := &decide.Patch{Thread: found.Key, Project: c.project, Title: p.Title, Archived: p.Archived, By: rt.by(c, "update")}
	if p.Metadata != nil {
		patch.Metadata = *p.Metadata
	}
	return patiently(rt, func() (ListedThread, error) {
		if _, err := rt.work.Decide(quota.OwnerOf(c.project, c.user), patch); err != nil {
			return ListedThread{}, unavailable(err)
		}
		return rt.listed(ctx, c, found.Key)
	}, nil)
}

// ThreadAsListed returns a thread that the caller may see, by its user's name for it or its conversationId, as
// Threads lists it.
func (rt *Runtime) ThreadAsListed(ctx context.Context, c Caller, name string) (ListedThread, error) {
	found, err := rt.Thread(ctx, c, name)
	if err != nil {
		return ListedThread{}, err
	}
	return rt.listed(ctx, c, found.Key)
}

func (rt *Runtime) listed(ctx context.Context, c Caller, key int64) (ListedThread, error) {
	listed, err := rt.store.ListedThread(ctx, c.project, key)
	return listed, unavailable(model.Gone(err, ErrThreadNotFound))
}

// check refuses invalid values, and compacts the metadata.
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

// deletedAtOnce is how many rows of a thread or a run one transaction removes, so that a long thread does not hold up
// the commits of runs.
const deletedAtOnce = 500

// DeleteThread removes a thread with its runs and their events; runs that are not over are cancelled first. Cursors
// into its log end. A long thread is deleted in parts, and its remainder stays visible until DeleteThread returns; if
// the process ends first, the next one completes the deletion before it serves requests.
func (rt *Runtime) DeleteThread(ctx context.Context, c Caller, name string) error {
	if err := rt.admits(); err != nil {
		return err
	}
	th, err := rt.ownThread(ctx, c, name)
	if err != nil {
		return err
	}
	if !c.deletes(th.User) {
		return refuse(KindForbidden, "forbidden", "Your role may not delete this thread")
	}
	return patientlyDone(rt, func() error {
		if err := rt.deleteThread(th.Key, c.project, rt.by(c, "delete")); err != nil {
			return err
		}
		rt.dropAttachments(ctx)
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

// DeleteUser removes all data of a user of the caller's project: its threads, with their runs, messages and events,
// and the remembered answers to its requests. Runs that are not over are cancelled first. Only the user and admins
// may call it. The audit entries about the user stay. If it fails, another call removes the rest.
func (rt *Runtime) DeleteUser(ctx context.Context, c Caller, user string) error {
	if err := rt.admits(); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if !c.deletes(user) {
		return errOthers
	}
	if !ValidName(user) {
		return errUser
	}
	return patientlyDone(rt, func() error { return rt.deleteUser(ctx, c, user) })
}

func (rt *Runtime) deleteUser(ctx context.Context, c Caller, user string) error {
	for {
		page, err := rt.store.Threads(ctx, ThreadFilter{Project: c.project, User: user, Limit: 100})
		if err != nil {
			return unavailable(err)
		}
		if len(page.Rows) == 0 {
			return rt.deleteAttachments(ctx, c.project, user)
		}
		for i := range page.Rows {
			if err := rt.deleteThread(page.Rows[i].Key, c.project, rt.by(c, "delete")); err != nil && !errors.Is(err, ErrThreadNotFound) {
				return err
			}
			if ctx.Err() != nil { // the client has disconnected
				return context.Cause(ctx)
			}
		}
	}
}

// deleteAttachments removes all attachments of a user.
func (rt *Runtime) deleteAttachments(ctx context.Context, project, user string) error {
	if rt.cfg.Attachments == nil {
		return nil
	}
	if _, err := rt.ExpireAttachments(ctx, project, user, time.Now(), false); err != nil {
		return unavailable(err)
	}
	rt.dropAttachments(ctx)
	return nil
}

// ownThread finds a thread the caller may change.
func (rt *Runtime) ownThread(ctx context.Context, c Caller, name string) (Thread, error) {
	th, err := rt.Thread(ctx, c, name)
	if err == nil && !c.changes(th.User) {
		return Thread{}, refuse(KindForbidden, "forbidden", "Your role may not change this thread")
	}
	return th, err
}
