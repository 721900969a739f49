package cmd_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

func TestCheck_ReportsAllErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	r := baton(t.Context(), "check").want(t, 1)
	if want := "baton.yaml: not found in this directory; baton init writes one\n"; r.stdout != want {
		t.Errorf("got %q, want %q", r.stdout, want)
	}
	r = baton(t.Context(), "check", "--listen", "nowhere").want(t, 1)
	if want := "environment and flags: listen: want an address"; !strings.Contains(r.stdout, want) || !strings.Contains(r.stdout, "baton.yaml: not found") {
		t.Errorf("got %q, want %q", r.stdout, want)
	}
	put(t, "baton.yaml", "limits: {rusn: 3}\nworkflows:\n  w: {nodes: {n: {agent: ecko}}}\nlisten: 8080\n")
	want := `baton.yaml:1:10: limits.rusn is not a setting; did you mean limits.runs?
baton.yaml:3:26: workflows.w.nodes.n.agent: there is no agent "ecko"; did you mean echo?
baton.yaml:4:1: listen: want an address and a port such as 127.0.0.1:8080, got "8080"
`
	if r := baton(t.Context(), "check").want(t, 1); r.stdout != want || r.stderr != "" {
		t.Errorf("got\n%swant\n%s%s", r.stdout, want, r.stderr)
	}
	put(t, "two.yaml", "workflows:\n  w:\n    nodes:\n      a: {agent: ecko}\n      b: {agent: echo, needs: [a], when: a.outptu == 1, input: 1 +}\n      c: {tool: nothing, needs: [a], when: b.status}\n")
	r = baton(t.Context(), "check", "two.yaml").want(t, 1)
	for _, want := range []string{`:4:18: workflows.w.nodes.a.agent: there is no agent "ecko"`, ":5:42: workflows.w.nodes.b.when: ", ":5:64: workflows.w.nodes.b.input: ", ":6:17: workflows.w.nodes.c.tool: ", "b (1:1): name it in needs"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	var v struct {
		File   string
		OK     bool
		Errors []struct {
			File, Path, Message string
			Line, Column        int
		}
	}
	must(t, json.Unmarshal([]byte(baton(t.Context(), "check", "--json", "baton.yaml").want(t, 1).stdout), &v))
	if len(v.Errors) != 3 || v.OK || v.Errors[1].Line != 3 || v.Errors[1].Column != 26 || v.Errors[1].Path != "workflows.w.nodes.n.agent" {
		t.Errorf("got %+v", v)
	}
	for _, args := range []string{"serve --listen 127.0.0.1:0", "run echo hello", "mcp"} {
		put(t, "baton.yaml", "agents:\n  a: {}\n")
		r := baton(t.Context(), strings.Fields(args)...).want(t, 2)
		if !strings.Contains(r.stderr, "baton.yaml:2:3: agents.a: agui, command or provider is missing") {
			t.Errorf("%s: got %q", args, r.stderr)
		}
	}
	put(t, "roles.yaml", "auth: {mode: jwt, jwks_url: 'https://id.example/keys', issuer: i, audience: [a], roles: [team=Admin]}\n")
	if r := baton(t.Context(), "check", "roles.yaml").want(t, 1); !strings.Contains(r.stdout, `auth: roles: there is no role "Admin"`) {
		t.Errorf("got %q", r.stdout)
	}
	put(t, "other.yaml", "workflows:\n  w: {nodes: {n: {agent: echo}}}\n")
	if r := baton(t.Context(), "check", "other.yaml").want(t, 0); r.stdout != "other.yaml: no errors; declares workflows.w\n" {
		t.Errorf("got %q", r.stdout)
	}
	put(t, "missing.yaml", "mcp:\n  files: {command: [no-such-program]}\n")
	warned := baton(t.Context(), "check", "missing.yaml").want(t, 0)
	if !strings.Contains(warned.stdout, "missing.yaml: warning: files cannot be started: exec: \"no-such-program\"") || !strings.Contains(warned.stdout, "no errors; declares") {
		t.Errorf("got %q", warned.stdout)
	}
	const approval = "workflows:\n  w: {nodes: {n: {tool: clock, approval: {by: operator}}}}\n"
	for auth, warns := range map[string]bool{"": true, "auth: {mode: api-key}\n": false} {
		put(t, "approval.yaml", auth+approval)
		if r := baton(t.Context(), "check", "approval.yaml").want(t, 0); strings.Contains(r.stdout, "approval.yaml: warning: anybody may give the approvals of w: ") != warns {
			t.Errorf("%q: got %q", auth, r.stdout)
		}
	}
	put(t, "context.yaml", "agents:\n  a: {provider: ollama, model: m, context: [.]}\n")
	if r := baton(t.Context(), "check", "context.yaml").want(t, 1); !strings.Contains(r.stdout, "agents.a.context[0]: contains the database baton.db") {
		t.Errorf("got %q", r.stdout)
	}
	for file, want := range map[string]string{
		"database: postgres://h/x?sslmode=maybe\n":                                                               "named.yaml: database: ",
		"tls: {cert_file: no.pem, key_file: no.pem}\n":                                                           "named.yaml: tls: certificate no.pem with key no.pem: open no.pem: ",
		"tls: {cert_file: named.yaml, key_file: named.yaml}\n":                                                   "named.yaml: tls: ",
		"auth: {mode: jwt, secret_file: no-secret}\n":                                                            "no-secret",
		"database: postgres://nobody@127.0.0.1:1/x?sslmode=disable\nauth: {mode: jwt, secret_file: no-secret}\n": "no-secret",
	} {
		put(t, "named.yaml", file)
		if r := baton(t.Context(), "check", "named.yaml").want(t, 1); !strings.Contains(r.stdout, want) || strings.Count(r.stdout, "\n") != 1 {
			t.Errorf("%s: got %q", file, r.stdout)
		}
	}
	put(t, "place.yaml", "database: postgres://nobody@127.0.0.1:1/x?sslmode=disable\nattachments: {directory: place.yaml}\n")
	if r := baton(t.Context(), "check", "place.yaml").want(t, 0); !strings.Contains(r.stdout, "place.yaml: warning: attachments.directory: this user cannot store files in place.yaml") {
		t.Errorf("got %q", r.stdout)
	}
	if r := baton(t.Context(), "check", "gone.yaml").want(t, 1); !strings.Contains(r.stdout, "gone.yaml") {
		t.Errorf("got %q", r.stdout)
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestInit_WritesWorkingFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OLLAMA_HOST"} {
		t.Setenv(name, "")
	}
	baton(t.Context(), "init").want(t, 0)
	if r := baton(t.Context(), "check").want(t, 0); r.stdout != "baton.yaml: no errors; declares workflows.answer\n" {
		t.Errorf("got %q", r.stdout)
	}
	r := baton(t.Context(), "run", "answer", "hello", "-o", "text").want(t, 0)
	if !strings.Contains(r.stdout, "hello") || !strings.Contains(r.stdout, "Allow clock?") {
		t.Errorf("the workflow in the file writes %q", r.stdout)
	}
	before, _ := os.ReadFile("baton.yaml")
	if r := baton(t.Context(), "init").want(t, 1); !strings.Contains(r.stderr, "exists already") {
		t.Errorf("got %q", r.stderr)
	}
	if after, _ := os.ReadFile("baton.yaml"); string(after) != string(before) {
		t.Error("init has changed a file")
	}
	if !strings.HasPrefix(string(before), "# yaml-language-server: $schema=./baton.schema.json\n") {
		t.Errorf("the file begins %.60q", before)
	}
	if text, err := os.ReadFile("baton.schema.json"); err != nil || string(text) != baton(t.Context(), "schema").stdout {
		t.Errorf("the schema beside it differs from baton schema, %v", err)
	}
}

// Another user may have put links to our files into the directory.
func TestInit_DoesNotFollowLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "precious", "keep")
	for _, name := range []string{"baton.schema.json", "baton.yaml"} {
		must(t, os.Symlink("precious", name))
		baton(t.Context(), "init")
		if text, err := os.ReadFile("precious"); err != nil || string(text) != "keep" {
			t.Errorf("%s: the link's target has become %.20q, %v", name, text, err)
		}
		_ = os.Remove("baton.yaml")
	}
}

func TestSchema_MatchesDocs(t *testing.T) {
	text := baton(t.Context(), "schema").want(t, 0).stdout
	const name = "../docs/baton.schema.json"
	if *update {
		put(t, name, text)
	}
	if documented, err := os.ReadFile(name); err != nil || string(documented) != text {
		t.Errorf("%s differs from the output of baton schema (%v); go test ./cmd -run Schema_Matches -update writes it", name, err)
	}
}

// programOf is a serve command that runs in this process.
func programOf(stdout, stderr *output, args ...string) *cmd.Program {
	return &cmd.Program{Plugins: builtin.Plugins(), Stdout: stdout, Stderr: stderr, Args: args}
}
