package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Bad input gets a 4xx with a sentence and a code, never a 500 or a hang, and changes nothing.
func TestBadInput_IsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		run := s.run("good", `{"do":[{"say":"fine"}]}`)
		s.ended(run)
		before := s.all("good")
		runs, one := "/api/projects/default/agent-runs", "/api/projects/default/agent-runs/"+run
		const post = "/api/v1/agent/runs"
		cases := []struct {
			method, path, body string
			status             int
			detail             string // empty for any
		}{
			{"GET", runs + "/nobody", "", 404, "Agent run not found"},
			{"GET", runs + "/nobody/steps", "", 404, "Agent run not found"},
			{"POST", runs + "/nobody/cancel", "", 404, "Agent run not found"},
			{"POST", runs + "/nobody/messages", `{"content":"x"}`, 404, "Agent run not found"},
			{"GET", "/api/projects/other/agent-runs/" + run, "", 404, ""},
			{"POST", one + "/cancel", "", 400, "Run cannot be cancelled. Current status: COMPLETED"},
			{"POST", one + "/messages", `{"content":"  "}`, 400, ""},
			{"POST", one + "/messages", `{"content":7}`, 400, ""},
			{"POST", one + "/messages", `{`, 400, ""},
			{"POST", one + "/messages", `{"content":"` + strings.Repeat("x", 1<<20+1) + `"}`, 413, ""},
			{"POST", one + "/messages", `{"content":"` + strings.Repeat("x", 3<<20) + `"}`, 413, ""},
			{"GET", one + "/steps?limit=0", "", 400, ""},
			{"GET", one + "/steps?limit=501", "", 400, ""},
			{"GET", one + "/steps?limit=many", "", 400, ""},
			{"GET", one + "/messages?cursor=!!!", "", 400, ""},
			{"GET", runs + "?since=yesterday", "", 400, ""},
			{"GET", runs + "?status=SLEEPING", "", 400, ""},
			{"POST", post, ``, 400, ""},
			{"POST", post, `[]`, 400, ""},
			{"POST", post, `null`, 400, ""},
			{"POST", post, `{"agent":"echo","content":"a"}}`, 400, ""},
			{"POST", post, `{"agent":7}`, 400, ""},
			{"POST", post, `{"agent":"echo","messages":{}}`, 400, ""},
			{"POST", post, `{"agent":"echo","messages":[{"id":"m","role":"emperor","content":"x"}]}`, 400, ""},
			{"POST", post, `{"agent":"echo","content":"a","messages":[]}`, 400, ""},
			{"POST", post, `{"agent":"echo","state":[]}`, 400, ""},
			{"POST", post, `{"agent":"echo","threadId":"` + strings.Repeat("t", 201) + `"}`, 400, ""},
			{"POST", post, `{"agent":"echo","threadId":"a\u0000b"}`, 400, ""},
			{"POST", post, `{"agent":"echo","multitask":"whatever"}`, 400, ""},
			{"POST", post, `{"content":"for whom?"}`, 400, ""},
			{"POST", post, `{"agent":"nobody","content":"x"}`, 404, ""},
			{"POST", post, `{"workflowId":"nothing","content":"x"}`, 404, ""},
			{"POST", post, `{"agent":"echo","threadId":"good","resume":[{"interruptId":"x","status":"resolved"}]}`, 400, ""},
			{"POST", post, strings.Repeat("[", 100000), 400, ""},
			{"POST", post, `{"agent":"echo","content":"` + strings.Repeat("x", 33<<20) + `"}`, 413, ""},
			{"GET", events("good") + "?after_event_id=999", "", 400, ""},
			{"GET", events("good") + "?after_event_id=-1", "", 400, ""},
			{"GET", events("good") + "?after_event_id=one", "", 400, ""},
			{"GET", events("unknown"), "", 404, ""},
			{"GET", events("%zz"), "", 404, ""},
			{"DELETE", runs, "", 405, ""},
			{"GET", "/nowhere", "", 404, ""},
		}
		for _, c := range cases {
			name := fmt.Sprintf("%s %s %.60s", c.method, c.path, c.body)
			status, detail, err := s.refusal(c.method, c.path, c.body)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if status != c.status || detail == "" || c.detail != "" && detail != c.detail {
				t.Errorf("%s: %d %q, want %d %q", name, status, detail, c.status, c.detail)
			}
		}
		sameFrames(t, "after all that", before, s.all("good"))
	})
}

func (s *server) refusal(method, path, body string) (int, string, error) {
	req, err := http.NewRequest(method, "http://"+s.addr, io.NopCloser(bytes.NewReader([]byte(body))))
	if err != nil {
		return 0, "", err
	}
	req.URL.Opaque = "//" + s.addr + path // unchanged, even if it is no valid path
	req.ContentLength = int64(len(body))
	if body != "" || method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	var problem struct{ Detail, Code string }
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		return res.StatusCode, "", err
	}
	if problem.Code == "" {
		return res.StatusCode, "", fmt.Errorf("%d without a code", res.StatusCode)
	}
	return res.StatusCode, problem.Detail, nil
}
