package storage

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/storage/storagetest"
)

// A PgBouncer that gives each transaction another session, or does not pass settings on, is refused with a sentence.
func TestOpen_RefusesAPooler(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("skipped: PgBouncer is not installed; .ci/setup installs it")
	}
	to, err := url.Parse(storagetest.Postgres(t).NewDatabase(t))
	must(t, err)
	const ignores = "ignore_startup_parameters = statement_timeout, lock_timeout, idle_in_transaction_session_timeout, tcp_user_timeout, default_transaction_read_only," +
		" plan_cache_mode, enable_seqscan, enable_hashjoin, enable_mergejoin, jit, search_path\n"
	for _, test := range []struct{ mode, more, want string }{
		{"session", ignores, errPooled.Error()},
		{"transaction", ignores, errPooled.Error()},
		{"session", "", "unsupported startup parameter"},
	} {
		pooler := startPooler(t, program, to, "pool_mode = "+test.mode+"\n"+test.more)
		db, err := Open(t.Context(), Config{URL: pooler})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, want %s", test.mode, test.more, err, test.want)
		}
		if db != nil {
			_ = db.Close()
		}
	}
}

// startPooler starts a PgBouncer, and returns the URL of the database through it.
func startPooler(t *testing.T, program string, to *url.URL, settings string) string {
	t.Helper()
	addr := cmdtest.Address()
	_, port, _ := strings.Cut(addr, ":")
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	config := fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nauth_type = any\nunix_socket_dir =\n%s",
		to.Hostname(), to.Port(), port, settings)
	must(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(program, "-q", file)
	if me, err := user.Current(); err == nil && me.Uid == "0" { // which it refuses to be
		must(t, os.Chmod(file, 0o644))
		cmd.Args = []string{program, "-q", "-u", "postgres", file}
	}
	cmd.Stderr = t.Output()
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal(errors.Join(errors.New("PgBouncer does not listen"), err))
		}
	}
	through := *to
	through.Host = addr
	return through.String()
}
