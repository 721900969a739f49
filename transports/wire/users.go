package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
)

// ThreadUser is a user who has threads in the project.
type ThreadUser struct {
	User         string    `json:"user"`         // The user's name.
	Threads      int       `json:"threads"`      // Number of the user's threads. Counting stops at 1 000.
	LastActiveAt time.Time `json:"lastActiveAt"` // Time of the latest activity on one of the threads.
}

// NewUsers makes a page of the users with threads in a project.
func NewUsers(l List, read runtime.Page[runtime.ThreadUser]) Page[ThreadUser] {
	return newPage(read, func(u *runtime.ThreadUser) ThreadUser {
		return ThreadUser{u.User, u.Threads, stamp(u.LastActiveAt)}
	}, func(u *runtime.ThreadUser) string {
		if read.BehindOne != "" {
			return l.CursorBehind(read.BehindOne)
		}
		return l.CursorBehind(u.User)
	})
}
