package runtime

import (
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// What a Caller was found to see comes with a grant beside the row: methods that take no Caller go by that, and not by
// keys, which anybody can write into a row.

// grant says what may be read of whose.
type grant struct {
	project string
	user    string // whose it is
	name    string // the user's own name for the thread
	thread  int64  // the keys
	run     int64  // 0 for the whole thread
}

// Thread is a thread that a Caller may see, as its row was then. One that was not obtained with a Caller, or whose Key was
// changed, is to every method a thread that is not there.
type Thread struct {
	model.Thread
	granted grant
}

// Run is a run that a Caller may see, as its row was then. One that was not obtained with a Caller, or whose keys were changed,
// is to every method a run that is not there.
type Run struct {
	model.Run
	granted grant
}

// Started is the answer to a request for a run. It shows that run to the methods that it was returned for, and to those
// nothing that was made otherwise.
type Started struct {
	decide.Started
	granted grant
}

// Handle is what is kept of a Thread by those who read its log later, without its row. The zero Handle reads nothing.
type Handle struct{ granted grant }

// Log is the log of a thread that a Caller may see: a Thread or a Handle.
type Log interface {
	grant() (grant, error)
}

var (
	_ Log = Thread{}
	_ Log = Handle{}
)

func granted(th model.Thread) Thread {
	return Thread{th, grant{project: th.Project, user: th.User, name: th.ID, thread: th.Key}}
}

func grantedRun(run model.Run) Run {
	return Run{run, grant{project: run.Project, user: run.User, name: run.ThreadID, thread: run.ThreadKey, run: run.Key}}
}

func grantedStart(project, user string, s decide.Started) Started {
	return Started{s, grant{project: project, user: user, name: s.ThreadID, thread: s.ThreadKey, run: s.RunKey}}
}

// Handle is what is to be kept of th.
func (th Thread) Handle() Handle {
	g, _ := th.grant() // of what is no thread it is the zero Handle
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
