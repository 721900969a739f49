package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

// kill -9 during the deletion of a user's data and the creation of keys. Afterwards the remaining data is consistent, other users
// have lost nothing, confirmed changes have happened, and a repeated deletion removes the rest.
func TestKill_DuringDeletionOfUser(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db, "BATON_AUTH=api-key", "BATON_AUTH_TEST_PLUGINS=true")
		root := s.keys("create", "--user", "root", "--project", "p1", "--role", "admin")
		k := &keyring{server: s, root: root, good: map[string]bool{root: true}}
		alice, bob := k.make("alice"), k.make("bob")
		kept := k.runs(bob, 1, 1)
		q := sqlOf(t, db)
		gone := 0
		for round := range count(10) {
			runs := k.runs(alice, 4, 2)
			for try := 0; ; try++ {
				deleted := make(chan int, 1)
				go func() {
					status, _, _ := s.try("DELETE", "/api/projects/p1/users/alice/data", nil, bearer(alice)...)
					deleted <- status
				}()
				if try == 2 { // without a kill
					if status := <-deleted; status != http.StatusNoContent {
						t.Fatalf("round %d: deleting the rest returns %d", round, status)
					}
					break
				}
				k.makeSome(4, func() { // the process ends here
					pause(time.Duration(rand.IntN(200)) * time.Millisecond)
					s.kill()
				})
				if <-deleted == http.StatusNoContent {
					gone++
				}
				s.up()
				k.check(round)
				for _, table := range []string{"run_spans", "run_names", "run_inputs", "steps", "messages", "events"} {
					if n := countOf(t, q, "SELECT count(*) FROM "+table+" WHERE run_key NOT IN (SELECT key FROM runs)"); n > 0 {
						t.Errorf("round %d: %d rows of %s belong to no run", round, n, table)
					}
				}
				k.readAll(alice)
				k.whole(bob, kept)
			}
			if n := countOf(t, q, "SELECT count(*) FROM threads WHERE user_id = 'alice'") + countOf(t, q, "SELECT count(*) FROM runs WHERE user_id = 'alice'"); n > 0 {
				t.Errorf("round %d: %d threads and runs of the deleted user remain", round, n)
			}
			for _, run := range runs {
				if status, _ := s.call("GET", "/api/projects/p1/agent-runs/"+run, nil, bearer(alice)...); status != http.StatusNotFound {
					t.Errorf("round %d: a deleted run returns %d", round, status)
				}
			}
			k.whole(bob, kept)
		}
		t.Logf("%d deletions finished before the kill, %d keys are valid", gone, len(k.good))
	})
}

// keyring is a server and the keys that it has returned.
type keyring struct {
	*server
	root string

	mu   sync.Mutex      // guards the field below
	good map[string]bool // keys in successful answers
}

func bearer(key string) []string { return []string{"Authorization", "Bearer " + key} }

// make creates a key over the API.
func (k *keyring) make(user string) string {
	k.t.Helper()
	status, made := k.call("POST", "/api/projects/p1/keys", map[string]any{"user": user, "role": "user"}, bearer(k.root)...)
	if status != http.StatusCreated {
		k.t.Fatalf("create a key: %d %v", status, made)
	}
	return made["key"].(string)
}

// makeSome creates keys concurrently until end has ended the server.
func (k *keyring) makeSome(many int, end func()) {
	var makers sync.WaitGroup
	for n := range many {
		makers.Go(func() {
			for {
				status, made, err := k.try("POST", "/api/projects/p1/keys", map[string]any{"user": fmt.Sprint("maker", n), "role": "user"}, bearer(k.root)...)
				if err != nil || status != http.StatusCreated {
					return
				}
				k.mu.Lock()
				k.good[made["key"].(string)] = true
				k.mu.Unlock()
			}
		})
	}
	end()
	makers.Wait()
}

// check checks that each key belongs to its project and is in the audit log, and that the keys in successful answers are valid.
func (k *keyring) check(round int) {
	k.t.Helper()
	q := sqlOf(k.t, k.db)
	for rows, query := range map[string]string{
		"keys without a project":    "SELECT count(*) FROM api_keys WHERE id NOT IN (SELECT id FROM api_key_projects)",
		"projects of missing keys":  "SELECT count(*) FROM api_key_projects WHERE id NOT IN (SELECT id FROM api_keys)",
		"keys without audit entry":  "SELECT count(*) FROM api_keys WHERE user_id <> 'root' AND id NOT IN (SELECT subject FROM audit WHERE action = 'create_key')",
		"audit entries without key": "SELECT count(*) FROM audit WHERE action = 'create_key' AND subject NOT IN (SELECT id FROM api_keys)",
	} {
		if n := countOf(k.t, q, query); n > 0 {
			k.t.Errorf("round %d: there are %d %s", round, n, rows)
		}
	}
	_ = q.Close()
	for key := range k.good {
		if status, _ := k.call("GET", "/api/v1/me", nil, bearer(key)...); status != http.StatusOK {
			k.t.Errorf("round %d: a key from a successful answer returns %d", round, status)
		}
	}
}

// runs makes each runs on each of threads new threads of a user, and waits for their ends.
func (k *keyring) runs(key string, threads, each int) (runs []string) {
	k.t.Helper()
	for i := range threads * each {
		status, out := k.call("POST", "/api/v1/agent/runs", map[string]any{
			"agent": "scripted", "threadId": fmt.Sprint("t", i%threads), "content": `{"do":[{"tokens":400},{"tool":"clock"},{"say":"i j k"}]}`,
		}, bearer(key)...)
		if status != http.StatusAccepted {
			k.t.Fatalf("start: %d %v", status, out)
		}
		runs = append(runs, out["runId"].(string))
	}
	for _, run := range runs {
		k.until("over: run "+run, func() bool {
			_, out := k.call("GET", "/api/projects/p1/agent-runs/"+run, nil, bearer(key)...)
			return final(out["status"])
		})
	}
	return runs
}

// readAll reads all data that a user still has. It must be readable, however much is missing.
func (k *keyring) readAll(key string) {
	k.t.Helper()
	get := func(path string) map[string]any {
		k.t.Helper()
		status, out := k.call("GET", path, nil, bearer(key)...)
		if status != http.StatusOK {
			k.t.Errorf("remaining data returns %d: %s %v", status, path, out)
		}
		return out
	}
	for _, th := range get("/api/v1/threads")["items"].([]any) {
		get("/api/v1/threads/" + th.(map[string]any)["threadId"].(string) + "/messages?hidden=true")
	}
	for _, r := range get("/api/projects/p1/agent-runs")["items"].([]any) {
		run := r.(map[string]any)
		id := run["id"].(string)
		for _, part := range []string{"", "/steps", "/node-states", "/messages", "/definition"} {
			get("/api/projects/p1/agent-runs/" + id + part)
		}
		for _, part := range []string{"/events", "/snapshot"} {
			get("/api/v1/conversations/" + run["conversationId"].(string) + "/agent-runs/" + id + part)
		}
	}
}

// whole checks that runs of a user are complete.
func (k *keyring) whole(key string, runs []string) {
	k.t.Helper()
	for _, run := range runs {
		_, out := k.call("GET", "/api/projects/p1/agent-runs/"+run, nil, bearer(key)...)
		conv, _ := out["conversationId"].(string)
		status, log := k.call("GET", "/api/v1/conversations/"+conv+"/agent-runs/"+run+"/events?limit=500", nil, bearer(key)...)
		list, _ := log["data"].([]any)
		if status != http.StatusOK || out["status"] != "COMPLETED" || len(list) < 10 {
			k.t.Errorf("run %s of another user is %v, with %d events", run, out["status"], len(list))
		}
	}
}
