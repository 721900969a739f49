package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
)

// ThreadUser is a user with threads in a project.
type ThreadUser struct {
	User         string    `json:"user"`
	Threads      int       `json:"threads"` // counting stops at 1 000
	LastActiveAt time.Time `json:"lastActiveAt"`
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
