package clients

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/sqlitetest"
)

var update = flag.Bool("update", false, "write the console's types of the API anew")

// guarded declares an agent with a model, and a workflow with a second node that needs approval and a third that never executes.
const guarded = `
agents:
  thinker: {description: Computes., provider: openai, model: gpt-test, base_url: %s/v1, api_key: none, tools: [calculator], parameters: {temperature: 0.5}}
workflows:
  guarded:
    description: Asks before it computes.
    nodes:
      say: {agent: echo}
      compute: {tool: calculator, needs: [say], input: {expression: "'1+1'"}, approval: required}
      never: {agent: echo, needs: [say], when: "say.status == 'skipped'"}
  listening: {description: Plays a script., nodes: {listen: {agent: scripted}}}
`

// fifty declares a workflow of fifty nodes, 24 of them alike.
func fifty() string {
	var b strings.Builder
	b.WriteString("  fifty:\n    description: Has many nodes.\n    nodes:\n      start: {agent: echo}\n")
	var last []string
	for i := range 12 {
		fmt.Fprintf(&b, "      source%02d: {agent: echo, needs: [start]}\n", i)
		fmt.Fprintf(&b, "      check%02d: {agent: echo, needs: [source%02d, source%02d], input: query}\n", i, i, (i+5)%12)
		last = append(last, fmt.Sprintf("check%02d", i))
	}
	for i := range 24 {
		fmt.Fprintf(&b, "      part%02d: {agent: echo, needs: [start]}\n", i)
		last = append(last, fmt.Sprintf("part%02d", i))
	}
	fmt.Fprintf(&b, "      end: {agent: echo, needs: [%s], input: query}\n", strings.Join(last, ", "))
	return b.String()
}

// computes is a model that calls the calculator before it answers, unless the prompt makes it fail.
func computes(r *llmtest.Request) llmtest.Script {
	usage := &agui.TokenUsage{InputTokens: 30, OutputTokens: 12}
	switch {
	case bytes.Contains(r.Body, []byte("fail")):
		return llmtest.Script{Fail: &llm.Error{Status: http.StatusBadRequest, Code: "model_refuses", Message: "That model is out of service"}}
	case bytes.Contains(r.Body, []byte(`"role":"tool"`)):
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("It is "), llmtest.Text("42.")}, Usage: usage}
	}
	return llmtest.Script{Steps: []llmtest.Step{llmtest.Call(0, "c1", "calculator"), llmtest.Arguments(0, `{"expression":"6*7"}`)}, Usage: usage}
}

// The console in a browser, in both themes and on large and small screens.
func TestConsole(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	on(t, postgres, func(t *testing.T, database string) {
		model := llmtest.New(computes)
		t.Cleanup(model.Close)
		settings := filepath.Join(t.TempDir(), "baton.yaml")
		must(t, os.WriteFile(settings, fmt.Appendf(nil, guarded+fifty(), model.URL), 0o600))
		s := start(t, database, "BATON_CONFIG="+settings)
		judge(t, "browser", "console.mjs", nil, database, "BATON_URL="+s.url(""), s.control(t), chromium)
	})
}

// Usage and budgets on the overview, and the question of a budget.
func TestConsole_ShowsSpending(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	on(t, sqlite, func(t *testing.T, database string) {
		model := llmtest.New(computes)
		t.Cleanup(model.Close)
		settings := filepath.Join(t.TempDir(), "baton.yaml")
		if err := os.WriteFile(settings, fmt.Appendf(nil, guarded+`
prices: {currency: EUR, models: {gpt-test: {input: 2000, output: 2000}}}
budgets:
  daily: {scope: project, per: day, unit: tokens, limit: 80, over: ask}
  each: {scope: run, unit: EUR, limit: 5}
`, model.URL), 0o600); err != nil {
			t.Fatal(err)
		}
		s := start(t, database, "BATON_CONFIG="+settings)
		judge(t, "browser", "console-spending.mjs", nil, database, "BATON_URL="+s.url(""), chromium)
	})
}

// control returns the variable that names the URL where a script requests a crash.
func (s *server) control(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /crash", s.onCrash)
	control := httptest.NewServer(mux)
	t.Cleanup(control.Close)
	return "CONTROL=" + control.URL
}

// The pages Playground, Waiting and Threads.
func TestConsole_Pages(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	on(t, sqlite, func(t *testing.T, database string) {
		s := start(t, database)
		judge(t, "browser", "console-pages.mjs", nil, database, "BATON_URL="+s.url(""), s.control(t), chromium)
	})
}

// Filters by time and runs, and the width of a phone.
func TestConsole_Narrowed(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	on(t, postgres, func(t *testing.T, database string) {
		s := start(t, database)
		judge(t, "browser", "console-narrow.mjs", nil, database, "BATON_URL="+s.url(""), chromium)
	})
}

// The console while the server is down, refuses requests or loses an answer.
func TestConsole_InTrouble(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	on(t, sqlite, func(t *testing.T, database string) {
		s := start(t, database)
		judge(t, "browser", "console-trouble.mjs", nil, database, "BATON_URL="+s.url(""), chromium)
	})
}

// Unexpected data in the database, from another program or version, breaks no page.
func TestConsole_ShowsStrangeData(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	path := sqlitetest.New(t)
	s := startOne(t, binary, "BATON_DATABASE=sqlite:"+path)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /replace", func(w http.ResponseWriter, r *http.Request) {
		var texts map[string]string
		err := json.NewDecoder(r.Body).Decode(&texts)
		if err == nil {
			s.kill()
			err = errors.Join(replace(path, texts), s.up())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	control := httptest.NewServer(mux)
	t.Cleanup(control.Close)
	judge(t, "browser", "console-strange.mjs", nil, "BATON_URL="+s.url(""), "CONTROL="+control.URL, chromium)
}

// replace replaces texts in the stored messages, events and questions of a database.
func replace(path string, texts map[string]string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for from, to := range texts {
		for _, statement := range []string{
			"UPDATE events SET payload = replace(payload, ?, ?)", "UPDATE interrupts SET body = replace(body, ?, ?)", "UPDATE messages SET message = replace(message, ?, ?)",
		} {
			if _, err := db.Exec(statement, from, to); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	return nil
}

// The code that the playground shows does the same as the playground.
func TestConsole_ShowsItsRequests(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	needs(t, "agui1") // the code uses its client
	needs(t, web)
	s := start(t)
	judge(t, "browser", "console-request.mjs", nil, "BATON_URL="+s.url(""), chromium)
}

// With accounts the console shows users their own data, and opens streams with tickets.
func TestConsole_WithAccounts(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	on(t, postgres, func(t *testing.T, database string) {
		s := start(t, database, "BATON_AUTH=api-key", "BATON_AUTH_TEST_PLUGINS=true")
		keys := map[string]string{}
		for name, where := range map[string][2]string{"alice": {"p1", "user"}, "bob": {"p1", "user"}, "vera": {"p1", "viewer"}, "oscar": {"p1", "operator"}, "adam": {"p1", "admin"}, "nell": {"p2", "user"}} {
			keys[name] = s.key(t, name, where[0], where[1])
		}
		b, err := json.Marshal(keys)
		must(t, err)
		judge(t, "browser", "console-accounts.mjs", nil, database, "BATON_URL="+s.url(""), "KEYS="+string(b), s.control(t), chromium)
	})
}

// Users sign in with tokens of their identity provider.
func TestConsole_WithTokens(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	const secret = "a secret that tokens are signed with"
	s := start(t, "BATON_AUTH=jwt", "BATON_AUTH_TEST_PLUGINS=true", "BATON_JWT_SECRET="+secret, "BATON_JWT_ISSUER=issuer", "BATON_JWT_AUDIENCE=baton")
	judge(t, "browser", "console-token.mjs", nil, "BATON_URL="+s.url(""), "SECRET="+secret, chromium)
}

// key creates an API key with the command line, beside the server.
func (s *server) key(t *testing.T, user, project, role string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program, "keys", "create", "--user", user, "--project", project, "--role", role)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("keys create: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// web is the directory of the console's source.
const web = "../../transports/console/web"

// The embedded files equal a build of the source with the locked dependencies, except for their compression.
func TestConsole_IsBuiltFromSource(t *testing.T) {
	t.Parallel()
	needs(t, web)
	dir := t.TempDir()
	node(t, web, []string{"OUT_DIR=" + dir}, "node_modules/.bin/vite", "build", "--logLevel", "error")
	got, want := inflated(t, dir), inflated(t, "../../transports/console/dist")
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("dist/%s differs from a build of the source; make console builds it", name)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("dist/%s is missing; make console builds it", name)
		}
	}
	const most = 3 << 19 // 1.5 MiB
	if size := packed(t, "../../transports/console/dist"); size > most {
		t.Errorf("the console is %d bytes, more than %d", size, most)
	}
}

// The console's source fits the types of openapi.json.
func TestConsole_FitsAPI(t *testing.T) {
	t.Parallel()
	needs(t, web)
	s := start(t)
	dir := t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "src"), os.DirFS(filepath.Join(web, "src"))))
	for _, name := range []string{"tsconfig.json", "package.json", "vite.config.ts"} {
		b, err := os.ReadFile(filepath.Join(web, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	modules, err := filepath.Abs(filepath.Join(web, "node_modules"))
	must(t, err)
	must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	types := filepath.Join(dir, "src", "api", "schema.d.ts")
	node(t, dir, nil, "node_modules/.bin/openapi-typescript", s.url("/openapi.json"), "-o", types)
	if *update {
		b, err := os.ReadFile(types)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(web, "src", "api", "schema.d.ts"), b, 0o600))
	}
	node(t, dir, nil, "node_modules/.bin/tsc", "--noEmit")
}

// node runs a Node.js program in a folder.
func node(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// inflated returns the decompressed files below a folder, by their names without .gz.
func inflated(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	walk(t, dir, func(name string, body []byte) {
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plain, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files[strings.TrimSuffix(name, ".gz")] = plain
	})
	return files
}

// packed returns the size of the files below a folder.
func packed(t *testing.T, dir string) (size int) {
	t.Helper()
	walk(t, dir, func(_ string, body []byte) { size += len(body) })
	return size
}

func walk(t *testing.T, dir string, each func(name string, body []byte)) {
	t.Helper()
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := fs.ReadFile(root, name)
		if err == nil {
			each(name, body)
		}
		return err
	})
	must(t, err)
}
