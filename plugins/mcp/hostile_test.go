package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/mcp"
)

// hostile is a server that answers each method with answer's JSON-RPC result or error.
func hostile(t *testing.T, answer func(method string, h http.Header) string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		said := answer(m.Method, r.Header)
		switch {
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "initialize":
			said = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
		case said == "":
			said = `"error":{"code":-32601,"message":"no"}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, said)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestErrors_HideSecrets(t *testing.T) {
	t.Parallel()
	url := hostile(t, func(method string, h http.Header) string {
		switch method {
		case "tools/list":
			return `"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			return fmt.Sprintf(`"error":{"code":-32000,"message":"I know %s"}`, h.Get("Authorization"))
		}
		return ""
	})
	cfg := mcp.Config{URL: url, Headers: map[string]string{"Authorization": "Bearer head-secret"}}
	tool := started(t, cfg).Tools()[0]
	if _, err := tool.Call(t.Context(), &plugins.Call{ID: "1"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an error of a call: %v", err)
	}

	var log bytes.Buffer
	cfg.Name, cfg.URL, cfg.Required = "it", "http://me:pass-secret@127.0.0.1:1/?token=query-secret", true
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	s, err := mcp.New(cfg)
	must(t, err)
	must(t, s.Start(t.Context()))
	<-s.Settled()
	failed := s.Check(t.Context())
	must(t, s.Close(context.Background()))
	if failed == nil || strings.Contains(failed.Error(), "secret") || log.Len() == 0 || strings.Contains(log.String(), "secret") {
		t.Errorf("Check: %v\n%s", failed, log.String())
	}
}

// A cursor that comes again is the sign of a list without an end.
func TestList_CursorRepeats(t *testing.T) {
	t.Parallel()
	var pages atomic.Int64
	url := hostile(t, func(method string, _ http.Header) string {
		if method != "tools/list" {
			return ""
		}
		n := pages.Add(1)
		return fmt.Sprintf(`"result":{"tools":[{"name":"t%d"}],"nextCursor":"%d"}`, n, n%2)
	})
	s := started(t, mcp.Config{URL: url, Required: true})
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), `the server's list has no end: the cursor "1" came before`) || pages.Load() != 3 {
		t.Errorf("%v after %d pages", err, pages.Load())
	}
}

// Listing stops early for an endless list or huge tools, and the log stays short.
func TestList_IsLimited(t *testing.T) {
	t.Parallel()
	giant := strings.Repeat("x", 1<<20)
	for name, page := range map[string]struct {
		tools int
		tool  string
	}{
		"giants":    {1, `{"name":"t%d","description":"` + giant + `","inputSchema":{"type":"object"}}`},
		"many":      {50, `{"name":"t%d","inputSchema":{"type":"object"}}`},
		"duplicate": {1, `{"name":"same","title":"%d","inputSchema":{"type":"object"}}`},
	} {
		var pages atomic.Int64
		url := hostile(t, func(method string, _ http.Header) string {
			if method != "tools/list" {
				return ""
			}
			n := int(pages.Add(1))
			list := make([]string, page.tools)
			for i := range list {
				list[i] = fmt.Sprintf(page.tool, n*page.tools+i)
			}
			return fmt.Sprintf(`"result":{"tools":[%s],"nextCursor":"%d"}`, strings.Join(list, ","), n)
		})
		var log bytes.Buffer
		s, err := mcp.New(mcp.Config{Name: "it", URL: url, Required: true, Connect: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		must(t, s.Start(t.Context()))
		<-s.Settled()
		failed := s.Check(t.Context())
		must(t, s.Close(context.Background()))
		if failed == nil || !strings.Contains(failed.Error(), "more than") || len(s.Tools()) != 0 || log.Len() > 10_000 {
			t.Errorf("%s: %v after %d pages; %d tools, %d bytes of log", name, failed, pages.Load(), len(s.Tools()), log.Len())
		}
	}
}
