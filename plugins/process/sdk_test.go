package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
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

func TestSDK_PackagesPassTheirTests(t *testing.T) {
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
