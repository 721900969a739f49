package cmd

import (
	"errors"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/batonrun/baton/storage"
)

// isListen reports whether an address could not be listened on.
func isListen(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "listen"
}

// withCure returns the text of an error, with its cure if that is known.
func withCure(err error) string {
	text := err.Error()
	cure := ""
	switch {
	case strings.Contains(text, "SSL is not enabled on the server"):
		cure = "the database server has no TLS; add sslmode=disable to the query of its URL, if you trust the network to it"
	case strings.Contains(text, "unsupported startup parameter"):
		cure = "a pooler such as PgBouncer is between; connect to PostgreSQL itself"
	case strings.Contains(text, "file is not a database"):
		cure = "the file is no SQLite database, or is damaged; name another one with --database, or restore a backup: baton restore"
	case errors.Is(err, storage.ErrDamaged):
		cure = "restore a backup: docs/backup.md"
	case errors.Is(err, syscall.EROFS):
		cure = "the database must lie on a file system that can be written; mount it so, or name another file with --database"
	case errors.Is(err, fs.ErrPermission) && isListen(err):
		cure = "ports below 1024 need a right: listen on another one, or give the program CAP_NET_BIND_SERVICE (AmbientCapabilities of a systemd unit, setcap)"
	case errors.Is(err, fs.ErrPermission):
		cure = "run Baton as the owner of the file, or let this user read it; a database and its directory it must write, too"
	case strings.Contains(text, "attempt to write a readonly database"):
		cure = "let this user write the file, those beside it with -wal and -shm, and their directory"
	case strings.Contains(text, "(3D000)"):
		cure = "correct its name in the URL, or create it: createdb --encoding=UTF8 --template=template0"
	case strings.Contains(text, "(28P01)"), strings.Contains(text, "(28000)"):
		cure = "correct the user and the password in the URL, or allow this user to connect (pg_hba.conf)"
	case strings.Contains(text, "(25006)"):
		cure = "connect to a PostgreSQL server that can be written"
	case strings.Contains(text, "(42501)"):
		cure = "the database's user lacks a right; make it the owner of the database, or GRANT it that right"
	case strings.Contains(text, "Project not found"):
		cure = "--project must be a project of your credential; without accounts there is only the project default"
	default:
		return text
	}
	return text + "; " + cure
}
