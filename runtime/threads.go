package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// Threads finds and lists threads and their users for a caller. It changes nothing.
type Threads struct {
	store    data.ByProject
	accounts bool        // see Config.Accounts
	searches *quota.Pool // under way
}

// Get finds a thread the caller may see: by the caller's own name for it, or by its conversationId.
func (ts *Threads) Get(ctx context.Context, c Caller, name string) (Thread, error) {
	if err := c.check(); err != nil {
		return Thread{}, err
	}
	if !ValidName(name) {
		return Thread{}, ErrThreadNotFound
	}
	th, err := ts.store.ThreadByID(ctx, c.project, c.user, name)
	if errors.Is(err, ErrNotFound) {
		th, err = ts.store.ThreadByConversation(ctx, c.project, name)
	}
	if err := c.lookupErr(err, th.User, ErrThreadNotFound); err != nil {
		return Thread{}, err
	}
	return granted(th), nil
}

// List lists the caller's own threads, without their states, latest activity first.
func (ts *Threads) List(ctx context.Context, c Caller, f ThreadFilter) (Page[ListedThread], error) {
	return ts.list(ctx, c, c.user, f)
}

// ListAll lists the threads that the caller may see: its own, or those of all users of its project.
func (ts *Threads) ListAll(ctx context.Context, c Caller, f ThreadFilter) (Page[ListedThread], error) {
	return ts.list(ctx, c, c.only(), f)
}

// list lists the threads of a user, or with "" of the caller's project.
func (ts *Threads) list(ctx context.Context, c Caller, user string, f ThreadFilter) (Page[ListedThread], error) {
	if err := c.check(); err != nil {
		return Page[ListedThread]{}, err
	}
	if err := checkText(f.Text); err != nil {
		return Page[ListedThread]{}, err
	}
	f.Project, f.User = c.project, user
	if f.Searches() {
		end, err := beginSearch(ts.searches, c)
		if err != nil {
			return Page[ListedThread]{}, err
		}
		defer end()
	}
	threads, err := ts.store.Threads(ctx, f)
	return threads, unavailable(err)
}

// Users lists the users with threads in the caller's project. With accounts it requires a role that sees all of them.
func (ts *Threads) Users(ctx context.Context, c Caller, f UserFilter) (Page[ThreadUser], error) {
	if err := c.check(); err != nil {
		return Page[ThreadUser]{}, err
	}
	if c.role < RoleViewer && ts.accounts {
		return Page[ThreadUser]{}, errViewers
	}
	if err := checkText(f.Text); err != nil {
		return Page[ThreadUser]{}, err
	}
	f.Project = c.project
	if f.Searches() {
		end, err := beginSearch(ts.searches, c)
		if err != nil {
			return Page[ThreadUser]{}, err
		}
		defer end()
	}
	users, err := ts.store.Users(ctx, f)
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

// UpdateThread changes a thread's title, metadata or archived mark, and returns the thread as Threads.List does. The
// update is not an activity: the thread keeps its place in the list.
func (rt *Runtime) UpdateThread(ctx context.Context, c Caller, name string, p ThreadPatch) (ListedThread, error) {
	if err := rt.Member.admits(c); err != nil {
		return ListedThread{}, err
	}
	if err := p.check(); err != nil {
		return ListedThread{}, err
	}
	found, err := rt.Threads.own(ctx, c, name)
	if err != nil {
		return ListedThread{}, err
	}
	patch := &decide.Patch{Thread: found.Key, Project: c.project, Title: p.Title, Archived: p.Archived, By: rt.by(c, "update")}
	if p.Metadata != nil {
		patch.Metadata = *p.Metadata
	}
	if _, err := rt.work.Ask(quota.OwnerOf(c.project, c.user), patch, nil); err != nil {
		return ListedThread{}, unavailable(err)
	}
	return rt.Threads.listed(ctx, c, found.Key)
}

// Listed returns a thread that the caller may see, by its user's name for it or its conversationId, as
// List lists it.
func (ts *Threads) Listed(ctx context.Context, c Caller, name string) (ListedThread, error) {
	found, err := ts.Get(ctx, c, name)
	if err != nil {
		return ListedThread{}, err
	}
	return ts.listed(ctx, c, found.Key)
}

func (ts *Threads) listed(ctx context.Context, c Caller, key int64) (ListedThread, error) {
	listed, err := ts.store.ListedThread(ctx, c.project, key)
	return listed, unavailable(data.Gone(err, ErrThreadNotFound))
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

// own finds a thread the caller may change.
func (ts *Threads) own(ctx context.Context, c Caller, name string) (Thread, error) {
	th, err := ts.Get(ctx, c, name)
	if err == nil && !c.changes(th.User) {
		return Thread{}, refuse(KindForbidden, "forbidden", "Your role may not change this thread")
	}
	return th, err
}
