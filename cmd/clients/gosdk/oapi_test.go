package gosdk

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The client that oapi-codegen generates compiles, starts a run, watches it and reads its final status.
func TestGeneratedClient(t *testing.T) {
	s := serve(t)
	res, err := http.Get(s.URL() + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	document, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in, out, overlay := filepath.Join(dir, "openapi.json"), filepath.Join(dir, "client.go"), filepath.Join(dir, "overlay.json")
	write(t, in, document)
	goes(t, "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", out, in)

	beside, err := filepath.Abs("oapi/client.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{beside: out}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, files)
	if got := goes(t, "run", "-overlay", overlay, "-tags", "generated", "./oapi", s.URL()); got != "COMPLETED" {
		t.Errorf("the run is %q", got)
	}
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// goes runs the go command and returns its output.
func goes(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", args[0], err)
	}
	return string(out)
}
