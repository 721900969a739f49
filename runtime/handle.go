package runtime

import (
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// A row that was found for a Caller carries a grant. Methods without a Caller trust the grant and not the row's keys,
// because any code can set those keys.

// grant identifies the thread, or the run, that its holder may read.
type grant struct {
	project string
	user    string // the owner
	name    string // the user's own name for the thread
	thread  int64  // the keys
	run     int64  // 0 for the whole thread
}

// Tie is a run and the connection that it belongs to.
type Tie = data.Tie

// Thread is a thread that a Caller may see, with its row at that time. All methods answer "not found" for a Thread
// that was not obtained with a Caller, or whose Key was changed.
type Thread struct {
	data.Thread
	granted grant
}

// Run is a run that a Caller may see, with its row at that time. All methods answer "not found" for a Run that was
// not obtained with a Caller, or that has changed keys.
type Run struct {
	data.Run
	granted grant
}

// Started is the answer to a request for a run. It grants access to that run; a Started that was made in another way
// grants none.
type Started struct {
	decide.Started
	granted grant
}

// Handle is the grant of a Thread without its row, for later reads of its log. The zero Handle reads nothing.
type Handle struct{ granted grant }

// Log is the log of a thread that a Caller may see: a Thread or a Handle.
type Log interface {
	grant() (grant, error)
}

var (
	_ Log = Thread{}
	_ Log = Handle{}
)

func granted(th data.Thread) Thread {
	return Thread{th, grant{project: th.Project, user: th.User, name: th.ID, thread: th.Key}}
}

func grantedRun(run data.Run) Run {
	return Run{run, grant{project: run.Project, user: run.User, name: run.ThreadID, thread: run.ThreadKey, run: run.Key}}
}

func grantedStart(project, user string, s decide.Started) Started {
	return Started{s, grant{project: project, user: user, name: s.ThreadID, thread: s.ThreadKey, run: s.RunKey}}
}

// Handle returns the handle of th.
func (th Thread) Handle() Handle {
	g, _ := th.grant() // the zero Handle if th has no grant
	return Handle{g}
}

func (th Thread) grant() (grant, error) {
	if th.granted.thread == 0 || th.Key != th.granted.thread || th.Project != th.granted.project {
		return grant{}, ErrThreadNotFound
	}
	return th.granted, nil
}

func (h Handle) grant() (grant, error) {
	if h.granted.thread == 0 {
		return grant{}, ErrThreadNotFound
	}
	return h.granted, nil
}

func (r *Run) grant() (grant, error) {
	if r.granted.run == 0 || r.Key != r.granted.run || r.ThreadKey != r.granted.thread || r.Project != r.granted.project {
		return grant{}, ErrRunNotFound
	}
	return r.granted, nil
}

func (s *Started) grant() (grant, error) {
	if s.granted.run == 0 || s.RunKey != s.granted.run || s.ThreadKey != s.granted.thread {
		return grant{}, ErrRunNotFound
	}
	return s.granted, nil
}
