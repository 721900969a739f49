package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/mcp"
	"github.com/batonrun/baton/runtime/agui"
)

const everything = "node_modules/.bin/mcp-server-everything"

// overStdio returns the public test server as a program.
func overStdio(t *testing.T) mcp.Config {
	t.Helper()
	return program(t, "everything", "stdio")
}

// program returns one of the public servers as a program.
func program(t *testing.T, name string, args ...string) mcp.Config {
	t.Helper()
	needs(t, "everything")
	path, err := filepath.Abs(filepath.Join("everything", "node_modules", ".bin", "mcp-server-"+name))
	must(t, err)
	return mcp.Config{Command: append([]string{path}, args...)}
}

// overHTTP returns the same server as an endpoint.
func overHTTP(t *testing.T) mcp.Config {
	t.Helper()
	needs(t, "everything")
	addr := cmdtest.Address()
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(t.Context(), everything, "streamableHttp")
	cmd.Dir, cmd.Env = "everything", append(os.Environ(), "PORT="+port)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	url := "http://" + addr + "/mcp"
	until(t, "listening", func() bool {
		res, err := http.Get(url)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	})
	return mcp.Config{URL: url}
}

// offer starts a Baton with the tools of an MCP server, and returns its URL.
func offer(t *testing.T, cfg mcp.Config) (string, *mcp.Server) {
	t.Helper()
	cfg.Name, cfg.Log = "all", slog.New(slog.NewTextHandler(t.Output(), nil))
	tools, err := mcp.New(cfg)
	must(t, err)
	b, err := baton.New(baton.Config{
		Database: "sqlite:" + filepath.Join(t.TempDir(), "baton.db"), Plugins: append(builtin.Plugins(), tools), Log: cfg.Log,
	})
	if err == nil {
		err = b.Start(t.Context())
	}
	must(t, err)
	until(t, "offered", func() bool { return len(tools.Tools()) > 0 })
	srv := httptest.NewServer(b.Handler())
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	return srv.URL, tools
}

// asked runs a script and returns the events of the run.
func asked(t *testing.T, url, ops string) (list []agui.Event) {
	t.Helper()
	body, err := json.Marshal(object{"content": `{"do":[` + ops + `]}`, "protocolVersion": "1.0"})
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/agui/scripted", bytes.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	for _, raw := range stream(t, req) {
		ev, err := agui.Decode(raw)
		must(t, err)
		list = append(list, ev)
	}
	return list
}

// results returns the results of the calls in events.
func results(events []agui.Event) (list []agui.ToolCallResult) {
	for _, ev := range events {
		if e, ok := ev.(agui.ToolCallResult); ok {
			list = append(list, e)
		}
	}
	return list
}

// A run can use all features of the public MCP test server, over either transport.
func TestEverythingServer(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]func(*testing.T) mcp.Config{"stdio": overStdio, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			url, tools := offer(t, transport(t))
			if n := len(tools.Tools()); n < 10 {
				t.Errorf("it has %d tools", n)
			}
			events := asked(t, url, `{"tool":"all.echo","args":{"message":"hi"}},
				{"tool":"all.get-sum","args":{"a":2,"b":3}},
				{"tool":"all.get-tiny-image"},
				{"tool":"all.get-structured-content","args":{"location":"New York"}},
				{"tool":"all.get-resource-reference","args":{"resourceType":"Text","resourceId":1}},
				{"tool":"all.trigger-long-running-operation","args":{"duration":1,"steps":2}},
				{"tool":"all.echo","args":{"massage":1}}`)
			got := results(events)
			if len(got) != 7 {
				t.Fatalf("%d results of %s", len(got), describe(events))
			}
			for i, want := range []string{"hi", "5", "MCP logo", "temperature", "resource", "completed", ""} {
				if !strings.Contains(got[i].Content, want) {
					t.Errorf("result %d is %.300q, want %q in it", i+1, got[i].Content, want)
				}
			}
			if image := string(got[2].Parts); !strings.Contains(image, `"type":"image"`) || !strings.Contains(image, `"mimeType":"image/png"`) {
				t.Errorf("the image is %.200s", image)
			}
			progress := 0
			for _, ev := range events {
				if e, ok := ev.(agui.Custom); ok && e.Name == agui.ProgressEvent {
					progress++
				}
			}
			if progress < 1 { // the last one may come after the result
				t.Error("no progress events")
			}
			if last := string(got[6].Metadata); !strings.Contains(last, "invalid_arguments") {
				t.Errorf("wrong arguments: %.300q %s", got[6].Content, last)
			}
		})
	}
}

// A run can use other public servers.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	file := filepath.ToSlash(filepath.Join(dir, "a.txt"))
	memory := program(t, "memory")
	memory.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}
	const thought = `{"tool":"all.sequentialthinking","args":{"thought":"Hm","thoughtNumber":%d,"totalThoughts":2,"nextThoughtNeeded":%t}}`
	for name, test := range map[string]struct {
		cfg  mcp.Config
		ops  []string
		want []string // in the results; "" for a failure
	}{
		"filesystem": {
			program(t, "filesystem", dir),
			[]string{
				fmt.Sprintf(`{"tool":"all.write_file","args":{"path":%q,"content":"ünï 🙂"}}`, file), fmt.Sprintf(`{"tool":"all.read_text_file","args":{"path":%q,"head":null}}`, file),
				fmt.Sprintf(`{"tool":"all.list_directory","args":{"path":%q}}`, dir), `{"tool":"all.read_text_file","args":{"path":"/etc/hostname"}}`,
			},
			[]string{"Successfully wrote", "ünï 🙂", "a.txt", ""},
		},
		"memory": {
			memory,
			[]string{
				`{"tool":"all.create_entities","args":{"entities":[{"name":"Ada","entityType":"person","observations":["writes programs"]}]}}`,
				`{"tool":"all.search_nodes","args":{"query":"programs"}}`, `{"tool":"all.create_entities","args":{"entities":7}}`, `{"tool":"all.read_graph"}`,
			},
			[]string{"Ada", "writes programs", "", "Ada"},
		},
		"sequential-thinking": {
			program(t, "sequential-thinking"),
			[]string{fmt.Sprintf(thought, 1, true), fmt.Sprintf(thought, 2, false)},
			[]string{`"thoughtHistoryLength": 1`, `"thoughtHistoryLength": 2`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := offer(t, test.cfg)
			got := results(asked(t, url, strings.Join(test.ops, ",")))
			if len(got) != len(test.want) {
				t.Fatalf("%d results: %+v", len(got), got)
			}
			for i, want := range test.want {
				if failed := strings.Contains(string(got[i].Metadata), `"status":"failure"`); failed != (want == "") || !strings.Contains(got[i].Content, want) {
					t.Errorf("result %d is %.300q %s, want %q in it", i+1, got[i].Content, got[i].Metadata, want)
				}
			}
		})
	}
}

// The official filesystem server sends each picture twice; a run has it once, or a sentence about its size.
func TestFilesystemServer_ReadsPictures(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	url, _ := offer(t, program(t, "filesystem", dir))
	for size, want := range map[int]string{225_000: "image/png", 5_000_000: "image/png", 9_000_000: "larger than 16 MiB"} {
		file := filepath.Join(dir, fmt.Sprint(size, ".png"))
		must(t, os.WriteFile(file, bytes.Repeat([]byte("\x89PNG\r\n\x1a\n"), size/8+1)[:size], 0o600))
		got := results(asked(t, url, fmt.Sprintf(`{"tool":"all.read_media_file","args":{"path":%q}}`, file)))
		if len(got) != 1 {
			t.Fatalf("%d results", len(got))
		}
		if all := got[0].AppendJSON(nil, agui.AGUI1); !bytes.Contains(all, []byte(want)) || len(all) > 4*size/3+2000 {
			t.Errorf("%d bytes: %.300q in an event of %d bytes", size, got[0].Metadata, len(all))
		}
	}
}

// When the MCP server is killed in a call, the call fails and the next one works.
func TestEverythingServer_IsKilled(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("there is no /proc")
	}
	url, _ := offer(t, program(t, "everything", "stdio", t.Name()))
	there := func() bool {
		got := results(asked(t, url, `{"tool":"all.echo","args":{"message":"still here"}}`))
		return len(got) == 1 && strings.Contains(got[0].Content, "still here")
	}
	until(t, "there", there)
	ended := make(chan []agui.Event, 1)
	go func() {
		ended <- asked(t, url, `{"tool":"all.trigger-long-running-operation","args":{"duration":3600,"steps":60}}`)
	}()
	until(t, "calling", func() bool {
		var runs struct{ Items []struct{ ID string } }
		var run struct{ LastEvent struct{ Type string } }
		read := func(path string, into any) bool {
			res, err := http.Get(url + "/api/projects/default/agent-runs" + path)
			if err != nil {
				return false
			}
			defer res.Body.Close()
			return json.NewDecoder(res.Body).Decode(into) == nil
		}
		return read("?status=RUNNING", &runs) && len(runs.Items) == 1 && read("/"+runs.Items[0].ID, &run) && run.LastEvent.Type == "TOOL_CALL_END"
	})
	pids := programs(t, t.Name())
	if len(pids) != 1 {
		t.Fatalf("programs: %v", pids)
	}
	program, err := os.FindProcess(pids[0])
	must(t, err)
	must(t, program.Kill())
	got := results(<-ended)
	if len(got) != 1 || !strings.Contains(string(got[0].Metadata), "tool_unavailable") {
		t.Errorf("got %+v", got)
	}
	until(t, "there again", there)
}

// programs returns the programs that this process has started with an argument.
func programs(t *testing.T, arg string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	must(t, err)
	for _, file := range files {
		list, _ := os.ReadFile(file)
		for pid := range strings.FieldsSeq(string(list)) {
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if n, err := strconv.Atoi(pid); err == nil && strings.Contains(string(line), arg) && !slices.Contains(pids, n) {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
