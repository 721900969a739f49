package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/mcp"
)

// script is what a program writes, by the method that it has got and the case
// of a call; "" is its start. $id is the request's id, $huge a long text.
type script map[string]string

// playScript is the program of scripted.
func playScript(text string) {
	var s script
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	huge := strings.NewReplacer("$huge", strings.Repeat("x", 17<<20))
	fmt.Print(huge.Replace(s[""]))
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments struct{ Case string } }
		}
		_ = json.Unmarshal(in.Bytes(), &m)
		answer, known := s[strings.TrimSpace(m.Method+" "+m.Params.Arguments.Case)]
		switch {
		case known:
		case m.ID != nil:
			answer = `{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}` + "\n"
		}
		if strings.HasPrefix(answer, "exit") {
			fmt.Fprint(os.Stderr, strings.TrimPrefix(answer, "exit "))
			os.Exit(7)
		}
		fmt.Print(huge.Replace(strings.ReplaceAll(answer, "$id", string(m.ID))))
	}
}

// scripted returns the Config of a program that plays s, and otherwise answers as it should.
func scripted(t *testing.T, s script) mcp.Config {
	t.Helper()
	whole := script{
		"initialize": `{"jsonrpc":"2.0","id":$id,"result":` + helloResult + "}\n",
		"tools/list": `{"jsonrpc":"2.0","id":$id,"result":` + listResult + "}\n",
	}
	maps.Copy(whole, s)
	text, err := json.Marshal(whole)
	must(t, err)
	cfg := program(t)
	cfg.Env = map[string]string{"MCP_SCRIPT": string(text)}
	return cfg
}

// Lines on standard output that are no messages are skipped and logged.
func TestProgram_OddLines(t *testing.T) {
	t.Parallel()
	const hi = `{"jsonrpc":"2.0","id":$id,"result":` + hiResult + `}`
	calls := script{
		"banner":         "working...\n" + hi + "\ndone\n",
		"bom":            "\ufeff" + hi + "\n",
		"ansi":           "\x1b[2K\x1b[0m" + hi + "\x1b[0m\n",
		"same line":      "loading... " + hi + "\n",
		"two in a line":  `{"jsonrpc":"2.0","method":"notifications/message","params":{}}` + hi + "\n",
		"pretty":         strings.ReplaceAll(hi, ",", ",\n  ") + "\n",
		"crlf":           hi + "\r\n",
		"batch":          "[" + hi + "]\n",
		"id as text":     strings.ReplaceAll(hi, "$id", `"$id"`) + "\n",
		"unknown id":     `{"jsonrpc":"2.0","id":999,"result":{}}` + "\n" + hi + "\n",
		"answered twice": hi + "\n" + hi + "\n",
		"open brace":     "{ starting\n{\n" + hi + "\n",
		"open object":    `{"result": {` + "\n" + hi + "\n",
		"bad progress":   `{"jsonrpc":"2.0","method":"notifications/progress","params":"x"}` + "\n" + hi + "\n",
		"huge id first":  `{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"$huge"}]}}` + "\n",
		"huge id last":   `{"result":{"content":[{"type":"text","text":"$huge"}]},"jsonrpc":"2.0","id":$id}` + "\n",
		"log with id":    `{"level":"error","id":$id,"error":"db timeout"}` + "\n" + hi + "\n",
		"no error":       strings.Replace(hi, `"result"`, `"error":false,"result"`, 1) + "\n",
		"after all":      hi + "\n",
	}
	s := script{"": "\ufeffServer is running\n\x1b[32mready\x1b[0m\n" + `{"level":"info","msg":"up"}` + "\n[1,2]\n7\n\"x\"\nnull\n\n   \n\x00\x07\n" +
		`{"method":"GET","path":"/"}` + "\n$huge\n"}
	for name, lines := range calls {
		s["tools/call "+name] = lines
	}
	cfg := scripted(t, s)
	var log bytes.Buffer
	cfg.Name, cfg.Log = "it", slog.New(slog.NewTextHandler(&locked{w: &log}, nil))
	server := started(t, cfg)
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		out, err := call(t, server, "it.put", `{"case":"`+name+`"}`)
		if shown, ok := errors.AsType[*plugins.Error](err); strings.HasPrefix(name, "huge") {
			if !ok || shown.Code != "tool_failed" || !strings.Contains(shown.Message, "larger than") {
				t.Errorf("%s: got %v", name, err)
			}
		} else if err != nil || out.ResultSummary != "hi" {
			t.Errorf("%s: got %+v, %v", name, out, err)
		}
	}
	must(t, server.Close(context.Background()))
	if strings.Contains(log.String(), "unavailable") || log.Len() > 10_000 || !strings.Contains(log.String(), "Server is running") {
		t.Errorf("log: %s", log.String())
	}
}

// The reason of a program's end has its standard error.
func TestProgram_LastWords(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{"initialize": "NOTION_TOKEN is not set", "tools/list": "NOTION_TOKEN is not set"} {
		cfg := scripted(t, script{method: "exit starting up\nError: NOTION_TOKEN is not set\n    at main (x.js:1)\n"})
		cfg.Required = true
		s := started(t, cfg)
		err := s.Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "exit status 7") {
			t.Errorf("%s: got %v", method, err)
		}
	}
}
