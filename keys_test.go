package baton_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/postgrestest"
)

// made is a key in the answer of the route that creates it.
type made struct{ ID, Key, User, Role, Name string }

// keyOf creates a key as an admin of p1.
func keyOf(t *testing.T, s *baton.Server, admin, body string) made {
	t.Helper()
	res := send(t, "POST", s.URL()+"/api/projects/p1/keys", body, "Authorization", admin)
	var k made
	if text := answer(t, res); res.StatusCode != http.StatusCreated || json.Unmarshal([]byte(text), &k) != nil || k.Key == "" {
		t.Fatalf("%s: %s %s", body, res.Status, text)
	}
	k.Key = "Bearer " + k.Key
	return k
}

// ofRole creates a key with CreateAPIKey.
func ofRole(t *testing.T, s *baton.Server, user string, role runtime.Role, projects ...string) (header, id string) {
	t.Helper()
	text, id, err := s.CreateAPIKey(t.Context(), user, projects, role, time.Time{})
	must(t, err)
	return "Bearer " + text, id
}

// TestKeys_BelongToProject creates, lists and revokes keys as admins of two projects, and tries to with other roles.
func TestKeys_BelongToProject(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		s := openWithKeys(t, database)
		root, rootID := ofRole(t, s, "root", runtime.RoleAdmin, "p1")
		other, _ := ofRole(t, s, "adam", runtime.RoleAdmin, "p2")
		_, shared := ofRole(t, s, "both", runtime.RoleUser, "p1", "p2")
		both, bossID := ofRole(t, s, "boss", runtime.RoleAdmin, "p1", "p2")
		alice := keyOf(t, s, root, `{"user":"alice","role":"user","name":"laptop"}`)
		for _, role := range []string{"viewer", "operator"} {
			key := keyOf(t, s, root, `{"user":"`+role+`","role":"`+role+`"}`)
			for _, c := range [][2]string{{"GET", ""}, {"POST", ""}, {"DELETE", "/" + alice.ID}} {
				if got := status(t, c[0], s.URL()+"/api/projects/p1/keys"+c[1], "Authorization", key.Key); got != http.StatusForbidden && got != http.StatusUnsupportedMediaType {
					t.Errorf("%s %s keys: %d", role, c[0], got)
				}
			}
		}
		if got := status(t, "GET", s.URL()+"/api/v1/me?projectId=p2", "Authorization", alice.Key); got != http.StatusNotFound {
			t.Errorf("a key for p1 is valid in p2: %d", got)
		}
		for _, c := range []struct {
			what, method, path, key string
			want                    int
		}{
			{"the keys of another project", "GET", "/api/projects/p2/keys", root, 404},
			{"a key in another project", "POST", "/api/projects/p2/keys", root, 404},
			{"a key of another project", "DELETE", "/api/projects/p2/keys/" + alice.ID, root, 404},
			{"a key of p1, in p2", "DELETE", "/api/projects/p2/keys/" + alice.ID, other, 404},
			{"a key that is not there", "DELETE", "/api/projects/p1/keys/aaaaaaaaaaaaa", root, 404},
			{"a key that is for p2, too", "DELETE", "/api/projects/p1/keys/" + shared, root, 403},
			{"it, by who has both", "DELETE", "/api/projects/p1/keys/" + shared, both, 204},
			{"alice's", "DELETE", "/api/projects/p1/keys/" + alice.ID, root, 204},
			{"it again", "DELETE", "/api/projects/p1/keys/" + alice.ID, root, 204},
		} {
			body := ""
			if c.method == "POST" {
				body = `{"user":"mallory","role":"admin"}`
			}
			res := send(t, c.method, s.URL()+c.path, body, "Authorization", c.key)
			if text := answer(t, res); res.StatusCode != c.want {
				t.Errorf("%s: %d %s, want %d", c.what, res.StatusCode, text, c.want)
			}
		}
		if got := status(t, "GET", s.URL()+"/api/v1/me", "Authorization", alice.Key); got != http.StatusUnauthorized {
			t.Errorf("a revoked key: %d", got)
		}
		list := answer(t, send(t, "GET", s.URL()+"/api/projects/p1/keys?count=true", "", "Authorization", root))
		var page struct {
			Items []struct {
				made
				RevokedAt *time.Time
			}
			Total int
		}
		if err := json.Unmarshal([]byte(list), &page); err != nil || page.Total != 6 || len(page.Items) != 6 || strings.Contains(list, `"p2"`) {
			t.Fatalf("%v: %s", err, list)
		}
		for _, k := range page.Items {
			if k.Key != "" || (k.RevokedAt != nil) != (k.ID == alice.ID || k.ID == shared) {
				t.Errorf("the list has %+v", k)
			}
		}
		audit := answer(t, send(t, "GET", s.URL()+"/api/projects/p1/audit", "", "Authorization", root))
		var told struct {
			Items []struct{ Actor, UserID, Action, Subject, ThreadID, Credential, Address, RequestID string }
		}
		must(t, json.Unmarshal([]byte(audit), &told))
		var did []string
		keys := map[string]string{"root": rootID, "boss": bossID, "alice": alice.ID, "both": shared}
		for _, a := range told.Items {
			if a.Subject == "" || a.ThreadID != "" || a.Credential != keys[a.Actor] || a.Address != "127.0.0.1" || a.RequestID == "" ||
				keys[a.UserID] != "" && a.Subject != keys[a.UserID] {
				t.Errorf("the audit log has %+v", a)
			}
			did = append(did, a.Actor+" "+a.Action+" "+a.UserID)
		}
		want := "root revoke_key alice; boss revoke_key both; root create_key operator; root create_key viewer; root create_key alice"
		if got := strings.Join(did, "; "); got != want {
			t.Errorf("the audit has %s, want %s", got, want)
		}
	})
}

// A key that was revoked at one server is refused at once by another that has just used it, and a third one ends its streams. Without
// hints that takes up to 30 seconds and a minute.
func TestKeys_RevokedAtAllServers(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	x, y, z := openWithKeys(t, database), openWithKeys(t, database), openWithKeys(t, database)
	root, _ := ofRole(t, x, "root", runtime.RoleAdmin, "p1")
	alice := keyOf(t, x, root, `{"user":"alice","role":"user"}`)
	for _, s := range []*baton.Server{x, y, z} { // until they know and hear each other
		knows := func() bool {
			list := answer(t, send(t, "GET", s.URL()+"/api/v1/servers", "", "Authorization", root))
			shown := httptest.NewRecorder()
			s.Metrics().ServeHTTP(shown, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
			return strings.Count(list, `"version":"`) == 3 && strings.Contains(shown.Body.String(), "baton_hints_deaf 0")
		}
		for !knows() {
			<-time.After(10 * time.Millisecond)
		}
	}
	all := openAll(t, z, alice.Key, 2*time.Second)
	if got := status(t, "GET", y.URL()+"/api/v1/me", "Authorization", alice.Key); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	if got := status(t, "DELETE", x.URL()+"/api/projects/p1/keys/"+alice.ID, "Authorization", root); got != http.StatusNoContent {
		t.Fatalf("revoked: %d", got)
	}
	late := time.After(25 * time.Second) // without hints, a server believes a key for 30 s
	for status(t, "GET", y.URL()+"/api/v1/me", "Authorization", alice.Key) != http.StatusUnauthorized {
		select {
		case <-late:
			t.Fatal("the key is still accepted")
		case <-time.After(10 * time.Millisecond):
		}
	}
	for _, o := range all {
		select {
		case <-o.ended:
		case <-late:
			t.Fatalf("%s has not ended", o.name)
		}
	}
}

// TestKeys_RefuseImpossibleValues requests keys with strange times, and ids and users that cannot exist.
func TestKeys_RefuseImpossibleValues(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		s := openWithKeys(t, database)
		root, _ := ofRole(t, s, "root", runtime.RoleAdmin, "p1")
		keys := s.URL() + "/api/projects/p1/keys"
		for _, at := range []string{"0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "1970-01-01T00:00:00Z", "never"} {
			if res := send(t, "POST", keys, `{"user":"u","role":"user","expiresAt":"`+at+`"}`, "Authorization", root); res.StatusCode != http.StatusBadRequest {
				t.Errorf("a key until %s: %s %s", at, res.Status, answer(t, res))
			}
		}
		for _, id := range []string{"%00", "%ff", "%f4%90%80%80", strings.Repeat("a", 300)} {
			if got := status(t, "DELETE", keys+"/"+id, "Authorization", root); got != http.StatusNotFound {
				t.Errorf("the key %.10s is revoked: %d", id, got)
			}
			if got := status(t, "DELETE", s.URL()+"/api/projects/p1/users/"+id+"/data", "Authorization", root); got != http.StatusBadRequest {
				t.Errorf("the data of user %.10s is removed: %d", id, got)
			}
		}
		if got := status(t, "GET", keys, "Authorization", root); got != http.StatusOK {
			t.Errorf("the list: %d", got)
		}
	})
}

// A key with role user cannot append to a tool's run that a key of the same user with role operator has started.
func TestToolRuns_NeedOperatorToContinue(t *testing.T) {
	t.Parallel()
	s := openWithKeys(t, "sqlite:"+t.TempDir()+"/baton.db")
	root, _ := ofRole(t, s, "root", runtime.RoleAdmin, "p1")
	operator, _ := ofRole(t, s, "dual", runtime.RoleOperator, "p1")
	user, _ := ofRole(t, s, "dual", runtime.RoleUser, "p1")
	res := send(t, "POST", s.URL()+"/api/v1/tools/calculator/runs", `{"runId":"r","arguments":{"expression":"6*7"}}`, "Authorization", operator)
	if text := answer(t, res); res.StatusCode != http.StatusAccepted {
		t.Fatalf("the operator's: %s %s", res.Status, text)
	}
	for _, c := range []struct {
		key, query string
		want       int
	}{{user, "", 403}, {user, "?user=dual", 403}, {root, "?user=dual", 201}, {operator, "", 201}} {
		if res := send(t, "POST", s.URL()+"/api/projects/p1/agent-runs/r/messages"+c.query, `{"content":"{\"expression\":\"6*9\"}"}`, "Authorization", c.key); res.StatusCode != c.want {
			t.Errorf("%s: %s %s, want %d", c.query, res.Status, answer(t, res), c.want)
		}
	}
}
