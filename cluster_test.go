package baton_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
)

// cluster starts two servers on one database.
func cluster(t *testing.T, cfg baton.Config) (x, y *baton.Server) {
	t.Helper()
	cfg.Database, cfg.Listen = postgrestest.New(t), "127.0.0.1:0"
	return open(t, cfg), open(t, cfg)
}

// Servers of a cluster keep attachments where all find them, also without a setting.
func TestCluster_ServesAttachmentsOfOtherServers(t *testing.T) {
	t.Parallel()
	x, y := cluster(t, baton.Config{})
	const path = "/api/v1/agent/attachments"
	content := strings.Repeat("a large text file\n", 50_000)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "a.txt")
	must(t, err)
	_, _ = part.Write([]byte(content))
	_ = form.Close()
	var up struct{ Bucket, Path string }
	sent := answer(t, send(t, http.MethodPost, x.URL()+path, body.String(), "Content-Type", form.FormDataContentType()))
	if err := json.Unmarshal([]byte(sent), &up); err != nil || up.Path == "" {
		t.Fatalf("%v: %s", err, sent)
	}
	must(t, x.Shutdown(t.Context()))
	var at struct{ URL string }
	signed := answer(t, send(t, http.MethodGet, y.URL()+path+"/signed-url?"+url.Values{"bucket": {up.Bucket}, "path": {up.Path}}.Encode(), ""))
	if err := json.Unmarshal([]byte(signed), &at); err != nil || at.URL == "" {
		t.Fatalf("%v: %s", err, signed)
	}
	if got := answer(t, send(t, http.MethodGet, at.URL, "")); got != content {
		t.Errorf("%d bytes come back: %.100s", len(got), got)
	}
}

// Each server of a cluster gives the same answers about runs, whichever executes them: one that executes, one that waits in the queue, those
// that wait for answers, and those that have ended. A request that changes a run has the same effect at each server.
func TestCluster_AnswersAlike(t *testing.T) {
	t.Parallel()
	cfg := baton.Config{
		Listen: "127.0.0.1:0", Database: postgrestest.New(t), Accounts: baton.AuthenticatorFunc(byHeader), Plugins: append(builtin.Plugins(), modelled()),
		Tuning: baton.Tuning{Limits: baton.Limits{RequestsPerUser: -1, RequestsPerProject: -1}, Timeouts: baton.Timeouts{Drain: time.Millisecond}},
	}
	var all []site
	for range 3 {
		all = append(all, site{t, open(t, cfg).URL()})
	}
	for _, s := range all {
		for strings.Count(s.request("p1/adam/admin", "GET", "/api/v1/servers", "").body, `"version":"`) < len(all) { // until they know each other
			<-time.After(10 * time.Millisecond)
		}
	}
	x := all[0]
	owner, theirs := x.settle("")
	theirs["queued"] = "their-queued"
	x.must(owner, "POST", "/api/v1/agent/runs", fill(`{"agent":"echo","threadId":"{busythread}","runId":"{queued}","content":"x"}`, theirs))
	for _, s := range all { // until they know why it waits
		for !strings.Contains(s.request(owner, "GET", fill("/api/projects/{project}/agent-runs/{queued}", theirs), "").body, `"waiting"`) {
			<-time.After(10 * time.Millisecond)
		}
	}
	theirs["mine"] = "absent-mine"
	reads := slices.Concat(slices.Collect(maps.Values(cases))...)
	reads = slices.DeleteFunc(reads, func(a ask) bool {
		asks := strings.Contains(a.path+a.body, "/connect") || strings.Contains(a.body, `"list_`) || strings.Contains(a.body, `"get_`) || strings.Contains(a.body, `"GET"`)
		return a.frames != nil || a.endless || a.method != http.MethodGet && !asks || perServer[a.path]
	})
	for _, run := range []string{"busy", "queued", "waiting", "caller"} {
		for _, part := range []string{"", "/steps", "/node-states", "/messages", "/definition", "/model-calls"} {
			reads = append(reads, ask{method: "GET", path: "/api/projects/{project}/agent-runs/{" + run + "}" + part})
		}
	}
	for _, thread := range []string{"busy", "asks", "calls"} {
		thread = "{" + thread + "conv}"
		reads = append(reads, ask{method: "GET", path: "/api/v1/threads/" + thread + "/messages"}, ask{method: "GET", path: "/api/v1/threads/" + thread},
			ask{method: "GET", path: "/api/v1/agent/history?threadId=" + thread}, ask{method: "GET", path: "/api/v1/agent/runs/" + thread + "/events"},
			ask{method: "POST", path: "/api/v1/agui/echo/connect", body: `{"threadId":"` + thread + `"}`})
	}
	var asking sync.WaitGroup
	places := make(chan struct{}, 16) // most of the time is spent waiting for streams that do not end
	for _, user := range []string{owner, "p1/adam/admin"} {
		for _, a := range reads {
			places <- struct{}{}
			asking.Go(func() {
				defer func() { <-places }()
				want := x.begins(user, &a, theirs)
				for n, s := range all[1:] {
					if diff := cmp.Diff(want, s.begins(user, &a, theirs)); diff != "" {
						t.Errorf("%s, %s %s %s: server %d answers otherwise:\n%s", user, a.method, a.path, a.body, n+1, diff)
					}
				}
			})
		}
	}
	asking.Wait()
	const runs = "/api/projects/{project}/agent-runs/"
	changes := []ask{
		{method: "POST", path: runs + "{busy}/messages", body: `{"content":"more"}`},
		{method: "POST", path: runs + "{queued}/messages", body: `{"content":"more"}`},
		{method: "POST", path: runs + "{waiting}/messages", body: `{"content":"more"}`},
		{method: "PATCH", path: "/api/v1/threads/{busyconv}", body: `{"title":"busy","metadata":{"a":1}}`},
		{method: "POST", path: runs + "{busy}/resume", body: `{"resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`},
		{method: "POST", path: runs + "{waiting}/resume", body: `{"resume":[]}`},
		{method: "POST", path: runs + "{waiting}/resume", body: `{"resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`},
		{method: "POST", path: runs + "{waiting}/resume", body: `{"resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`},
		{method: "POST", path: "/api/v1/agent/runs", body: `{"agent":"echo","threadId":"{busythread}","content":"x","multitask":"reject"}`},
		{method: "POST", path: "/api/v1/agent/runs", body: firstBody, header: []string{"Idempotency-Key", "{key}"}},
		{method: "POST", path: "/api/v1/agui/echo", body: `{"threadId":"{calls}","runId":"{caller}","messages":[{"id":"t","role":"tool","toolCallId":"{call}","content":"{}"}]}`},
		{method: "DELETE", path: runs + "{busy}"},
		{method: "POST", path: runs + "{queued}/cancel"},
		{method: "POST", path: runs + "{busy}/cancel"},
		{method: "POST", path: runs + "{busy}/cancel"},
		{method: "POST", path: runs + "{run}/cancel"},
		{method: "POST", path: runs + "{busy}/messages", body: `{"content":"more"}`},
		{method: "DELETE", path: runs + "{busy}"},
		{method: "GET", path: runs + "{busy}"},
		{method: "DELETE", path: "/api/v1/threads/{asksconv}"},
		{method: "GET", path: "/api/v1/threads/{asksconv}/messages"},
	}
	var answers [2][]string
	for i, s := range []site{x, all[1]} { // both things are x's
		who, theirs := x.settle([]string{"-here", "-there"}[i])
		theirs["queued"] = theirs["run"] + "-queued"
		x.must(who, "POST", "/api/v1/agent/runs", fill(`{"agent":"echo","threadId":"{busythread}","runId":"{queued}","content":"x"}`, theirs))
		for n := range changes {
			got := strings.ReplaceAll(s.begins(who, &changes[n], theirs), theirs["user"], "{user}")
			answers[i] = append(answers[i], fmt.Sprintf("%s %s %s: %s", changes[n].method, changes[n].path, changes[n].body, got))
		}
	}
	if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
		t.Errorf("what another server executes is changed otherwise:\n%s", diff)
	}
}

// An event of a type that this version does not know, which a later version or a plugin has written, is shown to clients of AG-UI 1.0 as it
// was written, and fails nothing for others, which do not get it.
func TestCluster_ShowsEventsOfUnknownTypes(t *testing.T) {
	t.Parallel()
	later := plugins.AgentFunc("later", func(_ context.Context, run *plugins.Run) error {
		for _, ev := range []agui.Event{
			agui.Unknown{Name: "LATER_OPENED", Body: json.RawMessage(`{"laterId":"one"}`)},
			agui.Unknown{Name: "LATER_CONTENT", Body: json.RawMessage(`{"messageId":"m","delta":"text"}`)},
		} {
			if err := run.Emit(ev); err != nil {
				return err
			}
		}
		text := run.Text()
		_, err := io.WriteString(text, "said")
		return errors.Join(err, text.Close())
	})
	const start = `{"agent":"later","threadId":"main","runId":"run","content":"go","protocolVersion":"1.0"}`
	x, y := cluster(t, baton.Config{Plugins: append(builtin.Plugins(), later)})
	answer(t, send(t, "POST", x.URL()+"/api/v1/agent/runs", start, "Accept", "text/event-stream"))
	var row struct{ ConversationID string }
	must(t, json.Unmarshal([]byte(answer(t, send(t, "GET", y.URL()+"/api/projects/default/agent-runs/run", ""))), &row))
	log := "/api/v1/conversations/" + row.ConversationID + "/agent-runs/run"
	for _, c := range []struct {
		method, path, body string
		shows              bool
	}{
		{"GET", "/api/v1/agent/runs/main/events", "", false},
		{"GET", log + "/events", "", false},
		{"GET", log + "/snapshot", "", false},
		{"GET", "/api/v1/agent/history?threadId=main", "", false},
		{"GET", "/api/v1/threads/" + row.ConversationID + "/messages", "", false},
		{"POST", "/api/v1/agui/later/connect", `{"threadId":"main","messages":[]}`, false},
		{"POST", "/api/v1/agent/runs", start, true},
	} {
		res := send(t, c.method, y.URL()+c.path, c.body, "Accept", "text/event-stream, application/json")
		got := answer(t, res)
		if res.StatusCode != http.StatusOK || !strings.Contains(got, "said") || strings.Contains(got, "LATER_OPENED") != c.shows || strings.Contains(got, "LATER_CONTENT") != c.shows {
			t.Errorf("%s: %s %s", c.path, res.Status, got)
		}
	}
}

// perServer are the routes whose answers differ between servers: of the server itself, and those with the server's own address or a signature.
var perServer = map[string]bool{"/api/v1/servers": true}

// begins returns the status and the beginning of an answer, up to its end or until nothing follows for a time, without the parts that differ each time.
func (s site) begins(user string, a *ask, t things) string {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, a.method, s.url+fill(a.path, t), strings.NewReader(fill(a.body, t)))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("User", user)
	if a.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(a.header); i += 2 {
		req.Header.Set(a.header[i], fill(a.header[i+1], t))
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	quiet := time.AfterFunc(2*time.Second, cancel)
	var body strings.Builder
	for part := make([]byte, 4096); ; quiet.Reset(2 * time.Second) {
		n, err := res.Body.Read(part)
		body.Write(part[:n])
		if err != nil {
			break
		}
	}
	text := unnamed(strings.ReplaceAll(body.String(), s.url, "{server}"), t)
	return fmt.Sprintf("%d %s", res.StatusCode, sealed.ReplaceAllString(text, `"{sealed}"`))
}

// sealed are cursors, signatures, and times of one answer.
var sealed = regexp.MustCompile(`"[A-Za-z0-9_-]{32,}"|expires=\d+|signature=[A-Za-z0-9_-]+|"timestamp\\*":\d+|"(duration|firstToken)Ms":\d+|: ping\n`)
