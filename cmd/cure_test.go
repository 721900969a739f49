package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lib/pq"
)

func TestError_SaysWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"sslmode=disable":      errors.New("database unavailable: pq: SSL is not enabled on the server"),
		"PgBouncer is between": errors.New("database unavailable: pq: unsupported startup parameter: jit"),
		"no SQLite database":   errors.New("database unavailable: file is not a database (26)"),
		"owner of the file":    fmt.Errorf("open: %w", &fs.PathError{Op: "open", Path: "baton.db.lock", Err: fs.ErrPermission}),
		"CAP_NET_BIND_SERVICE": fmt.Errorf("serve: %w", &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}),
		"GRANT it that right":  fmt.Errorf("migrate: %w", &pq.Error{Code: "42501", Message: "permission denied for schema public"}),
		"of your credential;":  errors.New("Project not found (404 not_found)"),
	} {
		if got := withCure(err); !strings.HasPrefix(got, err.Error()+"; ") || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := withCure(fs.ErrExist); got != fs.ErrExist.Error() {
		t.Errorf("got %q", got)
	}
}
