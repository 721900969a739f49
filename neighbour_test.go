package baton_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins/builtin"
)

// The neighbour tests request one user's things, the owner's, at every door as other users. The requests are in
// neighbour_cases_test.go, which must cover all routes, commands of sockets and tools of the server.

// things are the ids of the owner's things, by their names in requests.
type things map[string]string

// absent returns ids of things that do not exist. A neighbour's request for the owner's things must get the same answer.
func absent(project string) things {
	return things{
		"project": project, "thread": "absent-thread", "conv": uuid.Must(uuid.NewV7()).String(), "run": "absent-run",
		"name": "absent-name", "asks": "absent-asks", "asksconv": uuid.Must(uuid.NewV7()).String(), "waiting": "absent-waiting",
		"interrupt": uuid.Must(uuid.NewV7()).String(), "calls": "absent-calls", "callsconv": uuid.Must(uuid.NewV7()).String(),
		"caller": "absent-caller", "called": "absent-called", "modelcall": uuid.Must(uuid.NewV7()).String(), "call": uuid.Must(uuid.NewV7()).String(),
		"busythread": "absent-busy", "busyconv": uuid.Must(uuid.NewV7()).String(), "busy": "absent-busyrun", "message": "absent-message",
		"key": "absent-key", "user": "alice", "attachment": "agent-inputs/alice/absent.txt",
		"runscursor": "2XbnZk3vT9qLwYp0RzM1aHc4sUfJ7oEg", "threadscursor": "2XbnZk3vT9qLwYp0RzM1aHc4sUfJ7oEgV5tKiB8xQNM", "messagescursor": "2XbnZk3vT9qLwYp0RzM1aHc4sUfJ7oEg",
	}
}

// site is a server with accounts, and the owner of things there.
type site struct {
	*testing.T
	url string
}

// sites runs a test on both databases.
func sites(t *testing.T, test func(s site)) {
	t.Helper()
	onBoth(t, func(t *testing.T, database string) { at(t, database, test) })
}

// at runs a test on a database.
func at(t *testing.T, database string, test func(s site)) {
	t.Helper()
	s := open(t, baton.Config{
		Listen: "127.0.0.1:0", Database: database, Accounts: baton.AuthenticatorFunc(byHeader), Plugins: append(builtin.Plugins(), modelled()),
		Tuning: baton.Tuning{Limits: baton.Limits{RequestsPerUser: -1, RequestsPerProject: -1}, Timeouts: baton.Timeouts{Drain: time.Millisecond}, Attachments: baton.Attachments{Directory: t.TempDir()}},
	})
	test(site{t, s.URL()})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil { // allows some time for busy requests
		t.Error(err)
	}
}

// said is the answer to a request.
type said struct {
	status int
	body   string
}

// request makes a request and reads the answer to its end. It fails if the answer does not end, as it would for a live stream.
func (s site) request(user, method, path, body string, header ...string) said {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	must(s, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if user != "" {
		req.Header.Set("User", user)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatalf("%s %s: %v, behind %s", method, path, err, text)
	}
	return said{res.StatusCode, string(text)}
}

// must makes a request that has to succeed, and decodes the answer.
func (s site) must(user, method, path, body string, header ...string) (answer map[string]any) {
	s.Helper()
	got := s.request(user, method, path, body, header...)
	if got.status >= 300 {
		s.Fatalf("%s %s %s: %d %s", method, path, body, got.status, got.body)
	}
	if got.body != "" {
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
			s.Fatalf("%s %s: %v in %s", method, path, err, got.body)
		}
	}
	return answer
}

// secret is in all messages of the owner.
const secret = "S3CRET"

// settle creates things of every kind for the user alice of project p1, with the suffix added to both names.
func (s site) settle(suffix string) (who string, t things) {
	s.Helper()
	user := "alice" + suffix
	who = "p1/" + user + "/user"
	t = things{
		"project": "p1", "user": user, "thread": "their-thread" + suffix, "run": "their-run" + suffix, "name": "their-name" + suffix,
		"asks": "their-asks" + suffix, "waiting": "their-waiting" + suffix, "calls": "their-calls" + suffix, "caller": "their-caller" + suffix, "called": "their-called" + suffix,
		"busythread": "their-busy" + suffix, "busy": "their-busyrun" + suffix, "message": "their-message" + suffix, "key": "their-key" + suffix,
	}
	start := func(body string, header ...string) string {
		s.Helper()
		return s.must(who, "POST", "/api/v1/agent/runs", fill(body, t), header...)["conversationId"].(string)
	}
	t["attachment"] = s.must(who, "POST", "/api/v1/agent/attachments", aForm, "Content-Type", "multipart/form-data; boundary=b")["path"].(string)
	t["conv"] = start(firstBody, "Idempotency-Key", t["key"])
	s.reach(who, t["run"], "COMPLETED")
	start(`{"agent":"scripted","threadId":"{thread}","runId":"{run}-ask","content":"{\"do\":[{\"ask\":{\"message\":\"` + secret + `\"}}]}"}`)
	asked := s.reach(who, t["run"]+"-ask", "WAITING")
	s.must(who, "POST", "/api/v1/agent/runs", fill(`{"agent":"scripted","threadId":"{thread}","runId":"{name}","resume":[{"interruptId":"`+asked+`","status":"resolved"}]}`, t))
	s.reach(who, t["name"], "COMPLETED")
	t["asksconv"] = start(`{"agent":"scripted","threadId":"{asks}","runId":"{waiting}","content":"{\"do\":[{\"ask\":{\"message\":\"` + secret + `\"}}]}"}`)
	t["interrupt"] = s.reach(who, t["waiting"], "WAITING")
	t["callsconv"] = start(`{"agent":"scripted","threadId":"{calls}","runId":"{caller}","tools":[{"name":"theirs","description":"","parameters":{}}],"content":"{\"do\":[{\"tool\":\"theirs\",\"args\":{}}]}"}`)
	t["call"] = s.reach(who, t["caller"], "WAITING")
	t["busyconv"] = start(`{"agent":"scripted","threadId":"{busythread}","runId":"{busy}","content":"{\"do\":[{\"say\":\"` + secret + `\"},{\"tool\":\"sleep\",\"args\":{\"ms\":3600000}}]}"}`)
	for deadline := time.Now().Add(patience); !strings.Contains(s.request(who, "GET", "/api/v1/threads/"+t["busythread"]+"/messages", "").body, `"sleep"`); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("the busy run does not come to rest")
		}
	}
	start(`{"agent":"modelled","threadId":"{called}","runId":"{called}","content":"` + secret + `"}`)
	s.reach(who, t["called"], "COMPLETED")
	calls := s.must(who, "GET", "/api/projects/p1/agent-runs/"+t["called"]+"/model-calls", "")["items"].([]any)
	t["modelcall"] = calls[0].(map[string]any)["id"].(string)
	for name, list := range map[string]string{
		"runscursor": "/api/projects/p1/agent-runs?", "threadscursor": "/api/v1/threads?",
		"messagescursor": "/api/projects/p1/agent-runs/" + t["run"] + "/messages?",
	} {
		t[name] = s.must(who, "GET", list+"limit=1", "")["nextCursor"].(string)
	}
	return who, t
}

// aForm is an upload.
const aForm = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n" + secret + "\r\n--b--\r\n"

// firstBody is the body of a request that was made with the Idempotency-Key {key}.
const firstBody = `{"agent":"echo","threadId":"{thread}","runId":"{run}","state":{"note":1},"messages":[{"id":"{message}","role":"user","content":"first words"}]}`

// reach waits until a run has a status, and returns the id of its first question, if any.
func (s site) reach(who, run, status string) string {
	s.Helper()
	project, _, _ := strings.Cut(who, "/")
	for deadline := time.Now().Add(patience); ; {
		got := s.must(who, "GET", "/api/projects/"+project+"/agent-runs/"+run, "")
		if got["status"] == status {
			if asks, _ := got["interrupts"].([]any); len(asks) > 0 {
				return asks[0].(map[string]any)["id"].(string)
			}
			return ""
		}
		if time.Now().After(deadline) {
			s.Fatalf("run %s is never %s: %v", run, status, got)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// fill replaces the names in the text of an ask.
func fill(text string, t things) string {
	for name, value := range t {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// ask is a request for things, with their names in braces.
type ask struct {
	method, path, body string
	header             []string
	frames             []string // for the socket that the path opens
	endless            bool     // the answer does not end: see the test of monitors
	roles              string   // the statuses for user, viewer, operator and admin of the same project; required
	mine               bool     // the request creates a thing of the caller
}

// unnamed removes the names of things from an answer, and values that differ each time.
func unnamed(text string, t things) string {
	names := slices.SortedFunc(maps.Keys(t), func(a, b string) int { return len(t[b]) - len(t[a]) })
	for _, name := range names {
		if name != "user" && name != "project" {
			text = strings.ReplaceAll(text, t[name], "{"+name+"}")
		}
	}
	text = ids.ReplaceAllString(text, "{id}")
	return times.ReplaceAllString(text, "{time}")
}

var (
	ids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`"?\d{4}-\d\d-\d\dT[0-9:.]+Z"?|"timestamp":\d+|"used":\d+`)
)

// answered makes the request as a user, and returns the answer.
func (s site) answered(user string, a *ask, t things, project string) said {
	s.Helper()
	path, body := fill(a.path, t), fill(a.body, t)
	header := make([]string, len(a.header))
	for i := range header {
		header[i] = fill(a.header[i], t)
	}
	if !strings.Contains(a.path, "{project}") && project != "" {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		path += sep + "projectId=" + url.QueryEscape(project)
	}
	if a.frames == nil {
		return s.request(user, a.method, path, body, header...)
	}
	return s.converse(user, path, a.frames, t)
}

// converse opens a socket and sends the frames, each after the answer to the one before: an acknowledgement, an error or a complete
// result. It returns the server's messages and the reason of the close.
func (s site) converse(user, path string, frames []string, t things) said {
	s.Helper()
	head := http.Header{}
	if user != "" {
		head.Set("User", user)
	}
	c, res, err := websocket.DefaultDialer.DialContext(s.Context(), "ws"+strings.TrimPrefix(s.url, "http")+path, head)
	if err != nil {
		if res == nil {
			s.Fatal(err)
		}
		return said{res.StatusCode, ""}
	}
	defer c.Close()
	_ = res.Body.Close()
	var all strings.Builder
	listen := func() bool {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, msg, err := c.ReadMessage()
		if err != nil {
			all.WriteString(err.Error())
			return false
		}
		all.Write(append(msg, '\n'))
		return true
	}
	many := strings.HasPrefix(path, "/api/v1/ws")
	for _, f := range frames {
		if err := c.WriteMessage(websocket.TextMessage, []byte(fill(f, t))); err != nil {
			break // closed with a reason
		}
		if many && !listen() {
			return said{101, all.String()}
		}
	}
	for !many && listen() { // up to the end
	}
	return said{101, all.String()}
}

// TestNeighbours_LearnNothing requests the owner's things at every door. Callers without access get the same status and text as for
// things that do not exist.
func TestNeighbours_LearnNothing(t *testing.T) {
	t.Parallel()
	sites(t, func(s site) {
		covered(s)
		owner, theirs := s.settle("")
		before := s.state(owner, theirs)
		neighbours := []string{
			"p1/mallory/user", // the same project
			"p2/alice/user",   // the same name in another project
			"p5/adam/admin",
		}
		if strings.HasSuffix(s.Name(), "/sqlite") { // the database does not know these roles
			neighbours = append(neighbours, "p3/vic/viewer", "p4/olga/operator")
		}
		for _, neighbour := range neighbours {
			s.Run(neighbour, func(t *testing.T) {
				s := site{t, s.url}
				own, _, _ := strings.Cut(neighbour, "/")
				mine := things{"mine": "my-thread"}
				run := s.must(neighbour, "POST", "/api/v1/agent/runs", `{"agent":"echo","threadId":"my-thread","content":"hello"}`)
				s.reach(neighbour, run["runId"].(string), "COMPLETED")
				for _, elsewhere := range []bool{false, true} { // in the neighbour's own project, and in the owner's
					if elsewhere && own == "p1" {
						continue
					}
					a, b := maps.Clone(theirs), absent("nowhere")
					if !elsewhere {
						a["project"], b["project"] = own, own
					}
					maps.Copy(a, mine)
					maps.Copy(b, mine)
					for _, late := range []bool{false, true} { // requests that create something come after those that only read
						for _, op := range slices.Sorted(maps.Keys(cases)) {
							for i := range cases[op] {
								if c := &cases[op][i]; !c.endless && c.mine == late {
									s.compare(neighbour, op, c, a, b, elsewhere)
								}
							}
						}
					}
				}
			})
		}
		s.Run("nobody", func(t *testing.T) {
			s := site{t, s.url}
			for _, user := range []string{"", "p1/alice/root"} {
				for op, list := range cases {
					for i := range list {
						got := s.answered(user, &list[i], theirs, "")
						want := http.StatusUnauthorized
						if public[op] {
							want = got.status
						}
						if got.status != want || strings.Contains(got.body, secret) {
							s.Errorf("%q, %s: %d %s", user, op, got.status, got.body)
						}
					}
				}
			}
		})
		if diff := cmp.Diff(before, s.state(owner, theirs)); diff != "" {
			s.Errorf("what was asked has changed somebody's things:\n%s", diff)
		}
	})
}

func (s site) compare(user, op string, c *ask, theirs, none things, elsewhere bool) {
	s.Helper()
	projectOf := func(t things) string {
		if elsewhere {
			return t["project"]
		}
		return ""
	}
	got, want := s.answered(user, c, theirs, projectOf(theirs)), s.answered(user, c, none, projectOf(none))
	asked := fill(c.path+c.body+strings.Join(c.header, " ")+strings.Join(c.frames, " "), theirs)
	if strings.Contains(got.body, secret) && !strings.Contains(asked, secret) {
		s.Errorf("%s %s: is shown a secret: %s", op, asked, got.body)
	}
	for name, id := range theirs {
		if name != "project" && name != "user" && name != "mine" && strings.Contains(got.body, id) && !strings.Contains(asked, id) {
			s.Errorf("%s %s: is told of %s: %s", op, asked, name, got.body)
		}
	}
	got.body, want.body = unnamed(got.body, theirs), unnamed(want.body, none)
	if got != want {
		s.Errorf("%s %s:\n    theirs: %d %s\n    absent: %d %s", op, asked, got.status, got.body, want.status, want.body)
	}
}

// state returns the owner's view of the things.
func (s site) state(owner string, t things) (all []string) {
	s.Helper()
	for _, run := range []string{"run", "name", "waiting", "caller", "busy"} {
		for _, part := range []string{"", "/steps", "/node-states", "/messages"} {
			all = append(all, s.request(owner, "GET", "/api/projects/p1/agent-runs/"+t[run]+part, "").body)
		}
	}
	for _, thread := range []string{"thread", "asks", "calls", "busythread"} {
		all = append(all, s.request(owner, "GET", "/api/v1/threads/"+t[thread]+"/messages?hidden=true", "").body)
	}
	all = append(all, s.request(owner, "GET", "/api/v1/threads", "").body, s.request(owner, "GET", "/api/projects/p1/agent-runs", "").body)
	return all
}

// While the owner works and others watch monitors, they see nothing of the owner, from any cursor.
func TestNeighbours_SeeNothingOnMonitors(t *testing.T) {
	t.Parallel()
	at(t, "", func(s site) {
		owner, theirs := s.settle("")
		watched := 0
		for op, list := range cases {
			for i := range list {
				if !list[i].endless {
					continue
				}
				watched++
				c := &list[i]
				cursor := s.watch(owner, op, c, theirs, "", true)
				for _, neighbour := range []string{"p1/mallory/user", "p2/alice/user", "p3/vic/viewer", "p4/olga/operator", "p5/adam/admin"} {
					s.watch(neighbour, op, c, theirs, "", false)
					s.watch(neighbour, op, c, theirs, cursor, false)
				}
				for _, colleague := range []string{"p1/vic/viewer", "p1/olga/operator", "p1/adam/admin"} {
					s.watch(colleague, op, c, theirs, "", true)
				}
			}
		}
		if watched != 3 {
			s.Errorf("there are %d monitors", watched)
		}
	})
}

// watch opens the monitor of c as a user while the owner and then the user work, and returns the id of the last event. It checks
// whether the user has seen events of the owner.
func (s site) watch(user, op string, c *ask, theirs things, cursor string, sees bool) (last string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, c.method, s.url+fill(c.path, theirs), http.NoBody)
	must(s, err)
	req.Header.Set("User", user)
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	res, err := http.DefaultClient.Do(req)
	must(s, err)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() { // the monitor is open
		s.Fatalf("%s: %s, %v", op, res.Status, lines.Err())
	}
	project, _, _ := strings.Cut(user, "/")
	end := "END" + uuid.NewString()
	owner := "p1/" + theirs["user"] + "/user"
	run := s.must(owner, "POST", "/api/v1/agent/runs", `{"agent":"echo","threadId":"watched","content":"`+secret+`"}`)
	s.reach(owner, run["runId"].(string), "COMPLETED")
	s.must(user, "POST", "/api/v1/agent/runs", `{"agent":"echo","content":"`+end+`","projectId":"`+project+`"}`)
	seen := false
	for lines.Scan() {
		line := lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			last = id
		}
		seen = seen || strings.Contains(line, secret)
		for _, name := range []string{"thread", "run", "busy", "busythread", "waiting", "conv"} {
			seen = seen || strings.Contains(line, theirs[name])
		}
		if strings.Contains(line, end) {
			break
		}
	}
	if lines.Err() != nil {
		s.Fatalf("%s: %v", op, lines.Err())
	}
	if seen != sees {
		s.Errorf("%s watches %s behind %q: sees what is another's: %v", user, op, cursor, seen)
	}
	return last
}

// opened returns the beginning of an answer that may not end, and the whole of a JSON answer.
func (s site) opened(user string, a *ask, t things) said {
	s.Helper()
	ctx, leave := context.WithTimeout(s.Context(), patience)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, a.method, s.url+fill(a.path, t), strings.NewReader(fill(a.body, t)))
	must(s, err)
	req.Header = http.Header{"User": {user}, "Content-Type": {"application/json"}}
	for i := 0; i < len(a.header); i += 2 {
		req.Header.Set(a.header[i], fill(a.header[i+1], t))
	}
	if a.frames != nil {
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
		} {
			req.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatalf("%s %s: %v", a.method, a.path, err)
	}
	defer res.Body.Close()
	if res.Header.Get("Content-Type") != "application/json" {
		return said{res.StatusCode, ""}
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatalf("%s %s: %v", a.method, a.path, err)
	}
	return said{res.StatusCode, string(text)}
}

// Each role in the owner's project may do to the owner's things only the allowed operations. The database does not know roles.
func TestRoles_InSameProject(t *testing.T) {
	t.Parallel()
	at(t, "", func(s site) {
		roles := []string{"user", "viewer", "operator", "admin"}
		for at, role := range roles {
			_, theirs := s.settle("-" + role)
			for _, late := range []bool{false, true} { // requests that create something come after those that only read
				for _, op := range slices.Sorted(maps.Keys(cases)) {
					for i := range cases[op] {
						c := &cases[op][i]
						if c.mine != late {
							continue
						}
						wants := strings.Fields(c.roles)
						if len(wants) != 4 {
							s.Fatalf("%s %s %s: what roles are answered is not said", op, c.path, c.body)
						}
						want := wants[at]
						it := theirs
						if c.method != "GET" && !c.mine && strings.HasPrefix(want, "2") && want != wants[0] { // the request has changed things that the next one needs
							_, it = s.settle("-" + role + "-" + uuid.NewString()[:8])
						}
						if got := s.opened("p1/boss-"+role+"/"+role, c, it); want != strconv.Itoa(got.status) {
							s.Errorf("%s does %s %s %s: %d %s, want %s", role, op, c.path, c.body, got.status, got.body, want)
						}
					}
				}
			}
		}
	})
}
