package cmd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/storagetest"
)

// serveWithAuth starts a server with accounts.
func serveWithAuth(t *testing.T, db string, auth config.Auth) *cmd.Server {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.Database = "127.0.0.1:0", db
	cfg.Auth = auth
	s, err := cmd.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), builtin.Plugins()...)
	must(t, err)
	t.Cleanup(func() { stop(t, s) })
	return s
}

// statusOf returns the status of a request with a token.
func statusOf(t *testing.T, url, token string) int {
	t.Helper()
	status, _ := get(t, url+"/api/v1/agents", token)
	return status
}

func get(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(text)
}

// TestKeys_BesideServer creates, uses, lists and revokes keys of a database that a server uses.
func TestKeys_BesideServer(t *testing.T) {
	for name, db := range map[string]string{"sqlite": database(t), "postgres": storagetest.Postgres(t).NewDatabase(t)} {
		t.Run(name, func(t *testing.T) {
			keys := func(args ...string) result {
				return baton(t.Context(), append([]string{"keys", args[0], "--database", db}, args[1:]...)...)
			}
			early := strings.TrimSpace(keys("create", "--user", "bob", "--project", "p1").want(t, 0).stdout) // before there is a schema
			auth := config.Default().Auth
			auth.Mode = config.AuthAPIKey
			s := serveWithAuth(t, db, auth)
			r := keys("create", "--user", "alice", "--project", "p1", "--project", "p2", "--role", "admin", "--expires", "1h").want(t, 0)
			if !regexp.MustCompile(`^baton_[a-z2-7]{13}_[a-z2-7]{59}\n$`).MatchString(r.stdout) {
				t.Fatalf("create prints %q", r.stdout)
			}
			key := strings.TrimSpace(r.stdout)
			for _, k := range []string{early, key} {
				if got := statusOf(t, s.URL(), k); got != http.StatusOK {
					t.Errorf("a key: %d", got)
				}
			}
			id := strings.Split(key, "_")[1]
			list := keys("list").want(t, 0).stdout
			if !regexp.MustCompile(id+` +alice +p1,p2 +admin +\S+ +valid until `).MatchString(list) || !regexp.MustCompile(`bob +p1 +user +\S+ +valid\n`).MatchString(list) ||
				strings.Contains(list, strings.Split(key, "_")[2][:20]) {
				t.Errorf("list prints\n%s", list)
			}

			t.Setenv("BATON_TOKEN", early)
			r = baton(t.Context(), "run", "--server", s.URL(), "nobody", "hello")
			if r.code != 1 || !strings.Contains(r.stderr, "nobody") || strings.Contains(r.stderr, "401") {
				t.Errorf("a client with a token: %+v", r)
			}
			r = baton(t.Context(), "run", "--server", s.URL(), "--token", "x", "nobody", "hello")
			if r.code != 1 || !strings.Contains(r.stderr, "401") {
				t.Errorf("a client with a wrong token: %+v", r)
			}

			for _, args := range [][]string{{"revoke", key}, {"revoke", "nobody"}} {
				if r := keys(args...); r.code != 1 || strings.Contains(r.stderr, key) {
					t.Errorf("%v: %+v", args, r)
				}
			}
			admin := strings.TrimSpace(keys("create", "--user", "olga", "--project", "p2", "--role", "admin").want(t, 0).stdout)
			keys("revoke", id).want(t, 0)
			_, audit := get(t, s.URL()+"/api/projects/p2/audit", admin)
			for _, want := range []string{`"action":"create_key"`, `"action":"revoke_key"`, `"credential":"host"`, `"subject":"` + id + `"`, `"userId":"alice"`} {
				if !strings.Contains(audit, want) {
					t.Errorf("the audit log is %s, want %s", audit, want)
				}
			}
			if list := keys("list").want(t, 0).stdout; !strings.Contains(list, "revoked ") {
				t.Errorf("list prints\n%s", list)
			}
			stop(t, s)
			s = serveWithAuth(t, db, auth)
			if got := statusOf(t, s.URL(), key); got != http.StatusUnauthorized {
				t.Errorf("a revoked key: %d", got)
			}
			beside, err := storage.Open(t.Context(), storage.Config{URL: db})
			must(t, err)
			defer beside.Close()
			must(t, beside.Saved().PutSecret(t.Context(), "something", "leaked"))
			keys("reset-secrets").want(t, 0) // while the server uses the database
			if got, err := beside.Saved().Secret(t.Context(), "something"); !errors.Is(err, runtime.ErrNotFound) {
				t.Errorf("an old secret: %q, %v", got, err)
			}
			for _, args := range [][]string{
				{"create", "--user", "alice"},
				{"create", "--project", "p"},
				{"create", "--user", "alice", "--project", "p", "--role", "Admin"},
				{"create", "--user", "..", "--project", "p"},
				{"revoke"},
				{"forget"},
			} {
				if r := keys(args...); r.code != 2 || strings.HasPrefix(r.stdout, "baton_") {
					t.Errorf("%v: %+v", args, r)
				}
			}
		})
	}
}

func TestTestPlugins_NeedSettingWithAccounts(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{{nil, true}, {map[string]string{"BATON_AUTH": "api-key"}, false}, {map[string]string{"BATON_AUTH": "api-key", "BATON_AUTH_TEST_PLUGINS": "true"}, true}} {
		for name, val := range c.env {
			t.Setenv(name, val)
		}
		r := baton(t.Context(), "run", "echo", "hello", "--database", database(t))
		if (r.code == 0) != c.want {
			t.Errorf("%v: %+v", c.env, r)
		}
	}
}

func TestAuthSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	secret := filepath.Join(t.TempDir(), "secret")
	long := strings.Repeat("s3cret", 8)
	must(t, os.WriteFile(secret, []byte(long+"\n"), 0o600))
	db := database(t)
	for i, c := range []struct {
		file string
		env  map[string]string
		want string // the error, empty if the server starts
	}{
		{"auth: {mode: jwt}", map[string]string{"BATON_JWT_SECRET": long}, ""},
		{"auth: {mode: jwt, secret_file: " + secret + ", roles: [a team=admin]}", nil, ""},
		{"auth: {mode: jwt, jwks_url: 'https://id.example.com/jwks', issuer: i, audience: [a, b]}", nil, ""},
		{"auth: {mode: api-key}", nil, ""},
		{"auth: {mode: key}", nil, `auth.mode: want none, api-key or jwt, got "key"`},
		{"auth: {mode: jwt}", nil, "jwt needs a secret"},
		{"auth: {mode: jwt, jwks_url: 'https://x.example/'}", map[string]string{"BATON_JWT_SECRET": long}, "BATON_JWT_SECRET and auth.jwks_url are set"},
		{"auth: {mode: jwt, secret: " + long + "}", nil, "must not contain a secret"},
		{"auth: {mode: jwt}", map[string]string{"BATON_JWT_SECRET": "s3cret"}, "can be guessed"},
		{"auth: {mode: jwt, secret_file: gone}", nil, "gone: no such file"},
		{"auth: {mode: jwt, jwks_url: 'https://x.example/'}", nil, "the issuer and the audience must be set"},
		{"auth: {mode: jwt, roles: [team]}", map[string]string{"BATON_JWT_SECRET": long}, "want name=role"},
		{"auth: {mode: jwt, roles: [team=king]}", map[string]string{"BATON_JWT_SECRET": long}, `there is no role "king"`},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			must(t, os.WriteFile(config.File, []byte(c.file+"\n"), 0o600))
			for name, val := range c.env {
				t.Setenv(name, val)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			printed := baton(t.Context(), "config")
			if strings.Contains(printed.stdout+printed.stderr, "s3crets3cret") {
				t.Errorf("config prints the secret: %+v", printed)
			}
			if c.want == "" {
				cfg, err := config.Load(nil)
				must(t, err)
				stop(t, serveWithAuth(t, db, cfg.Auth))
				return
			}
			r := baton(ctx, "serve", "--database", db, "--listen", "127.0.0.1:0")
			if r.code != 2 || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "s3crets3cret") {
				t.Errorf("%s: %+v", c.file, r)
			}
		})
	}
}

// Without --project, commands use the token's default project.
func TestClient_UsesProjectOfToken(t *testing.T) {
	db := database(t)
	auth := config.Default().Auth
	auth.Mode, auth.TestPlugins = config.AuthAPIKey, true
	s := serveWithAuth(t, db, auth)
	create := []string{"keys", "create", "--database", db, "--user", "alice", "--project", "p1", "--project", "p2"}
	t.Setenv("BATON_TOKEN", strings.TrimSpace(baton(t.Context(), create...).want(t, 0).stdout))
	t.Setenv("BATON_URL", s.URL())
	baton(t.Context(), "runs").want(t, 0)

	in, lines := io.Pipe()
	defer lines.Close()
	var stdout, stderr output
	p := cmd.Program{
		Plugins: builtin.Plugins(), Args: []string{"chat", "scripted", "--server", s.URL(), "--thread", "main"}, Stdout: &stdout, Stderr: &stderr, Stdin: in,
	}
	code := make(chan int, 1)
	go func() { code <- p.Run(context.WithoutCancel(t.Context())) }()
	say := func(line, until string) {
		t.Helper()
		if _, err := io.WriteString(lines, line+"\n"); err != nil {
			t.Fatal(err)
		}
		stdout.until(t, until)
	}
	say(`{"do":[{"tool":"sleep","args":{"ms":600000}}]}`, "→ sleep")
	must(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	stdout.until(t, "cancelled\n")
	say(`{"do":[{"ask":{"message":"Sure?"}},{"say":"gone on"}]}`, "? Sure?\n")

	run := strings.Fields(baton(t.Context(), "runs", "--json").want(t, 0).stdout)
	if len(run) == 0 || !strings.Contains(run[0], `"projectId":"p1"`) {
		t.Fatalf("got %s", run)
	}
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(run[0])[1]
	baton(t.Context(), "answer", id, "--payload", `{"yes":true}`).want(t, 0)
	_ = lines.Close()
	<-code

	p.Args = []string{"chat", "--server", s.URL(), "--thread", "main"} // with the thread's agent
	p.Stdin = strings.NewReader("/quit\n")
	if got := p.Run(t.Context()); got != 0 || !strings.Contains(stdout.String(), "thread main") {
		t.Errorf("exit code %d\n%s%s", got, stdout.String(), stderr.String())
	}
	asks := `{"do":[{"ask":{"message":"Sure?"}},{"say":"thanks"}]}` + "\nyes\n"
	if r := talk(t, asks, "scripted", "--server", s.URL()).want(t, 0); !strings.HasSuffix(r.stdout, "thanks\n") {
		t.Errorf("a question that chat answers: %q", r.stdout)
	}
	if r := baton(t.Context(), "cancel", "nobody").want(t, 1); !strings.Contains(r.stderr, "Agent run not found") {
		t.Errorf("got %q", r.stderr)
	}
}
