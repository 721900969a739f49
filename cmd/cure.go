package cmd

import (
	"errors"
	"io/fs"
	"strings"
)

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
		cure = "the file is no SQLite database; name another one with --database, or move it away"
	case errors.Is(err, fs.ErrPermission):
		cure = "run Baton as the owner of the file and its directory, or let this user write both"
	case strings.Contains(text, "Project not found"):
		cure = "--project must be a project of your credential; without accounts there is only the project default"
	default:
		return text
	}
	return text + "; " + cure
}
