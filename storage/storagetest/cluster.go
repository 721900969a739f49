package storagetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/batonrun/baton/cmd/cmdtest"
)

// Cluster is a throw-away PostgreSQL cluster of the machine's own PostgreSQL: on a free port of the loopback
// interface, without a password.
type Cluster struct {
	dir    string // holds data, the socket and the log
	port   int
	bin    string
	as     *syscall.Credential // the user that runs it; nil for our own
	keep   io.WriteCloser      // the stdin of the shell that watches the server; nil when it is stopped
	shell  *exec.Cmd
	shared bool // by many tests: it is quicker, and its databases go with their tests

	mu   sync.Mutex    // guards idle
	idle []driver.Conn // sessions of a shared cluster for exec
}

// SharedVariable names the environment variable with the port of a cluster that the tests of many packages share: see Share.
const SharedVariable = "BATON_TEST_POSTGRES"

// shared returns the cluster of SharedVariable, or starts one that ends with the process.
var shared = sync.OnceValues(func() (*Cluster, error) {
	if port := os.Getenv(SharedVariable); port != "" {
		n, err := strconv.Atoi(port)
		return &Cluster{port: n, shared: true}, err
	}
	return startCluster(true)
})

// Postgres returns a cluster that all tests share, which saves the seconds that a start takes. It does not survive the machine's
// crash, but is faster for that. Do not Kill it, and do not measure or change more of it than databases of your own.
func Postgres(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := shared()
	if err != nil {
		missing(tb, err)
	}
	return c
}

// Share starts a cluster for Postgres in the processes that get the setting, such as "BATON_TEST_POSTGRES=5432", in their environment.
// It ends with stop, or with this process. Without PostgreSQL the setting is empty.
func Share() (setting string, stop func(), err error) {
	c, err := startCluster(true)
	if errors.Is(err, errNoPostgres) {
		return "", func() {}, nil
	}
	if err != nil {
		return "", nil, err
	}
	return SharedVariable + "=" + strconv.Itoa(c.port), c.remove, nil
}

// StartPostgres returns a cluster of the test's own, with real fsyncs, which ends with the test.
func StartPostgres(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := startCluster(false)
	if err != nil {
		missing(tb, err)
	}
	tb.Cleanup(c.remove)
	return c
}

// missing ends a test that cannot have a cluster. It skips the test where PostgreSQL is not installed, but not in CI.
func missing(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errNoPostgres) && os.Getenv("CI") != "true" {
		tb.Skipf("skipped: %v", err)
	}
	tb.Fatalf("start PostgreSQL: %v", err)
}

// URL returns the URL of a database of the cluster.
func (c *Cluster) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
		Path: database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// NewDatabase creates an empty database, which goes with the test, and returns its URL.
func (c *Cluster) NewDatabase(tb testing.TB) string {
	tb.Helper()
	return c.forTest(tb, "template1")
}

// NewEncoded is NewDatabase with an encoding.
func (c *Cluster) NewEncoded(tb testing.TB, encoding string) string {
	tb.Helper()
	return c.forTest(tb, "template0 LOCALE 'C' ENCODING '"+encoding+"'")
}

// NewTemplate creates an empty database for CopyOf, which stays until the cluster ends, and returns its URL.
func (c *Cluster) NewTemplate() (string, error) { return c.create("template1") }

// CopyOf creates a copy of a database without connections, which goes with the test, and returns its URL.
func (c *Cluster) CopyOf(tb testing.TB, of string) string {
	tb.Helper()
	return c.forTest(tb, databaseOf(of))
}

// WithCopy calls f with the URL of a copy of a database without connections. The copy goes when f returns.
func (c *Cluster) WithCopy(tb testing.TB, of string, f func(url string)) {
	tb.Helper()
	u, err := c.create(databaseOf(of))
	if err != nil {
		tb.Error(err)
		return
	}
	f(u)
	if err := c.drop(u); err != nil {
		tb.Error(err)
	}
}

func (c *Cluster) forTest(tb testing.TB, template string) string {
	tb.Helper()
	u, err := c.create(template)
	if err != nil {
		tb.Fatal(err)
	}
	if c.shared {
		tb.Cleanup(func() { _ = c.drop(u) }) // which fails if the test has renamed it
	}
	return u
}

// Names of databases begin with a text of the process, because others share the cluster.
var (
	process   = strings.ToLower(rand.Text()[:10])
	databases atomic.Int64
)

// create creates a database and returns its URL. Copying its files takes half as much time as writing them to the log does.
func (c *Cluster) create(template string) (string, error) {
	name := fmt.Sprintf("test_%s_%d", process, databases.Add(1))
	return c.URL(name), c.exec("CREATE DATABASE " + name + " STRATEGY file_copy TEMPLATE " + template)
}

func (c *Cluster) drop(u string) error {
	return c.exec("DROP DATABASE " + databaseOf(u) + " WITH (FORCE)")
}

// exec executes a statement on an idle session, because a new one takes longer than most statements. An sql.DB would have a goroutine, and
// tests look for those that are left.
func (c *Cluster) exec(statement string) error {
	conn, err := c.session()
	if err != nil {
		return err
	}
	if _, err := conn.(driver.ExecerContext).ExecContext(context.Background(), statement, nil); err != nil || !c.shared {
		return errors.Join(err, conn.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
	return nil
}

// session returns an idle session, or a new one.
func (c *Cluster) session() (driver.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return conn, nil
	}
	return pq.Open(c.URL("postgres"))
}

// databaseOf returns the name in a database's URL.
func databaseOf(u string) string {
	if u, err := url.Parse(u); err == nil {
		return strings.TrimPrefix(u.Path, "/")
	}
	return ""
}

// Kill stops the server at once, as a power failure would but for the operating system's buffers: it
// aborts all connections, and the next Start recovers from the log.
func (c *Cluster) Kill() error {
	if c.keep == nil {
		return nil
	}
	_, err := io.WriteString(c.keep, "stop\n")
	err = errors.Join(err, c.keep.Close(), c.shell.Wait())
	c.keep = nil
	return err
}

// watch runs a server until its stdin has a line or ends. It ends when the test dies, and then no other process will clean
// up.
const watch = `
dir=$1; shift
"$@" >>"$dir/log" 2>&1 &
server=$!
read -r _; told=$?
kill -QUIT $server 2>/dev/null
wait $server
[ $told = 0 ] || rm -rf "$dir"
exit 0`

// Start starts the server after Kill, on the same port, and waits until it answers.
func (c *Cluster) Start() error {
	args := []string{
		"-c", watch, "sh", c.dir, filepath.Join(c.bin, "postgres"), "-D", filepath.Join(c.dir, "data"), "-k", c.dir,
		"-h", "127.0.0.1", "-p", strconv.Itoa(c.port), "-c", "synchronous_commit=on",
		"-c", "search_path=baton,public", // a test's own sessions see Baton's tables
	}
	if c.shared {
		args = append(args, "-c", "max_connections=1000", "-c", "fsync=off", "-c", "full_page_writes=off")
	} else {
		args = append(args, "-c", "max_connections=200", "-c", "fsync=on")
	}
	c.shell = c.command("sh", args...)
	stdin, err := c.shell.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.shell.Start(); err != nil {
		return err
	}
	c.keep = stdin
	return c.wait()
}

// StandBy makes the server a standby, which can only be read, as after a failover to another.
func (c *Cluster) StandBy() error {
	if err := c.Kill(); err != nil {
		return err
	}
	signal := filepath.Join(c.dir, "data", "standby.signal")
	err := os.WriteFile(signal, nil, 0o600)
	if err == nil && c.as != nil {
		err = os.Chown(signal, int(c.as.Uid), int(c.as.Gid))
	}
	return errors.Join(err, c.Start())
}

func (c *Cluster) wait() error {
	db, err := sql.Open("postgres", c.URL("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	for deadline := time.Now().Add(10 * time.Minute); ; <-time.After(10 * time.Millisecond) {
		err := db.Ping()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			return fmt.Errorf("no answer: %w\n%s", err, log)
		}
	}
}

// remove stops the server and deletes everything.
func (c *Cluster) remove() {
	if c.keep != nil {
		_ = c.keep.Close()
		_ = c.shell.Wait()
	}
	_ = os.RemoveAll(c.dir)
}

func startCluster(shared bool) (_ *Cluster, err error) {
	c := &Cluster{shared: shared, port: cmdtest.Port()}
	if c.bin, err = postgresBin(); err != nil {
		return nil, err
	}
	if c.as, err = postgresUser(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "baton-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.remove()
		}
	}()
	if c.as != nil {
		if err := os.Chown(c.dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := c.command(filepath.Join(c.bin, "initdb"), "-D", filepath.Join(c.dir, "data"), "-U", "postgres",
		"-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return c, c.Start()
}

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true}
	return cmd
}

var errNoPostgres = errors.New("there is no PostgreSQL server on this machine")

// postgresBin returns the directory of the PostgreSQL programs.
func postgresBin() (string, error) {
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(found, func(a, b string) int { return majorVersion(b) - majorVersion(a) })
	for _, dir := range append(dirs, found...) {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", errNoPostgres
}

func majorVersion(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// postgresUser returns the user to run the server as: PostgreSQL refuses to run as root.
func postgresUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
