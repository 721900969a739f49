package process_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// languages are the commands of testdata's agents, which do the same in each language.
func languages(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{
		"python":     {"python3", "testdata/agent.py"},
		"typescript": {"node", typescript(t)},
	}
}

// build compiles the TypeScript agent once.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "baton-typescript-")
	if err != nil {
		return "", err
	}
	for from, to := range map[string]string{"sdk/typescript/baton.ts": "baton.ts", "testdata/agent.ts": "agent.ts"} {
		source, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, to), source, 0o600); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		return "", err
	}
	sdk, err := filepath.Abs("sdk/typescript")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(sdk, "node_modules/.bin/tsc"), "--strict", "--skipLibCheck", "--target", "es2022",
		"--module", "nodenext", "--types", "node", "--typeRoots", filepath.Join(sdk, "node_modules/@types"), "agent.ts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out), err
	}
	return filepath.Join(dir, "agent.js"), nil
})

func typescript(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("sdk/typescript/node_modules"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("the packages of sdk/typescript are not installed")
		}
		t.Skip("the packages of sdk/typescript are not installed: .ci/setup does it")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err, path)
	}
	return path
}

// The programs of docs/process.md start, and the TypeScript one compiles.
func TestDocs_ExamplesOfPrograms(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/process.md")
	if err != nil {
		t.Fatal(err)
	}
	typescript(t) // skips without the packages
	dir := t.TempDir()
	for n, found := range regexp.MustCompile("(?s)```(python|ts)\n(.*?)```").FindAllStringSubmatch(string(docs), -1) {
		path := filepath.Join(dir, strconv.Itoa(n)+"."+found[1])
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(found[2], `"baton-agent"`, `"./baton.js"`)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "python3", path)
		cmd.Env = append(os.Environ(), "PYTHONPATH=sdk/python")
		cmd.Stdin = strings.NewReader(`{"id":1,"method":"initialize","params":{"protocol":1}}` + "\n")
		want := `"protocol":1`
		if found[1] == "ts" {
			cmd, want = compile(t, dir, path), ""
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s\n%v\n%s", found[2], err, out)
		}
	}
}

// compile returns the command that checks a TypeScript program beside a copy of the package.
func compile(t *testing.T, dir, path string) *exec.Cmd {
	t.Helper()
	source, err := os.ReadFile("sdk/typescript/baton.ts")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "baton.ts"), source, 0o600),
			os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	}
	sdk, wrong := filepath.Abs("sdk/typescript")
	if err := errors.Join(err, wrong); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), filepath.Join(sdk, "node_modules/.bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022",
		"--module", "nodenext", "--types", "node", "--typeRoots", filepath.Join(sdk, "node_modules/@types"), path)
}

func TestSDK_PackagesPassTheirTests(t *testing.T) {
	t.Parallel()
	typescript(t) // skips without the packages
	dist := t.TempDir()
	for dir, commands := range map[string][][]string{
		"sdk/python": {{"python3", "-m", "unittest", "discover", "tests"}},
		"sdk/typescript": {
			{"node_modules/.bin/tsc", "--outDir", dist}, {"diff", "-r", "dist", dist}, // what npm installs is compiled from the source
			{"node", "--test", "test/"},
		},
	} {
		for _, args := range commands {
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %q: %v\n%s", dir, args, err, out)
			}
		}
	}
}
