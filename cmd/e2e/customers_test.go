package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// customer has a thread on a cluster. It sends its requests one after the other to any server, and records what came of them.
type customer struct {
	c       *cluster
	rng     *rand.Rand
	thread  string
	deletes bool
	runs    []*order
	appends []*addition

	mu       sync.Mutex // guards the field below
	accepted []*order
}

// order is a request for a run.
type order struct {
	number   int64
	run      string // "" unless it was answered
	outcome  outcome
	mayEnd   bool // something may have cancelled it
	ends     bool // it was cancelled for sure
	extended bool // an answer or a message may have continued it
	deleted  outcome
}

// addition is a message that was appended to a run.
type addition struct {
	*order
	number  int64
	outcome outcome
}

const runsAPI = "/api/projects/default/agent-runs"

// send makes a request to any server. With a key it repeats the request, at other servers, until its outcome is known.
func (k *customer) send(method, path string, body any, key string) (outcome, map[string]any) {
	var headers []string
	if key != "" {
		headers = []string{"Idempotency-Key", key}
	}
	doubt := false
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second) // a server may stand still
		status, out, err := k.c.any(k.rng).within(ctx, method, path, body, headers...)
		cancel()
		got := k.c.outcomeOf(path, status, out, err)
		doubt = doubt || got == unknown
		switch {
		case got == done:
			return done, out
		case key == "" || try > 20 || got == refused && status < http.StatusInternalServerError:
			if doubt {
				got = unknown
			}
			return got, out
		}
		pause(upTo(k.rng, 300*time.Millisecond))
	}
}

// key returns an Idempotency-Key for two of three requests.
func (k *customer) key(number int64) string {
	if k.rng.IntN(3) == 0 {
		return ""
	}
	return fmt.Sprint("key-", number)
}

// shop sends requests until stop is closed.
func (k *customer) shop(stop chan struct{}) {
	for !closedNow(stop) {
		var known []*order
		for _, o := range k.runs {
			if o.run != "" && o.deleted == refused {
				known = append(known, o)
			}
		}
		choice := k.rng.IntN(100)
		switch {
		case len(known) == 0, choice < 40 && len(k.runs) < 8:
			k.start()
		case choice < 55:
			k.append(known[k.rng.IntN(len(known))])
		case choice < 65:
			k.cancel(known[k.rng.IntN(len(known))])
		case choice < 85:
			k.answer(known[len(known)-1])
		case k.deletes:
			k.delete(known[k.rng.IntN(len(known))])
		}
		pause(upTo(k.rng, 400*time.Millisecond))
	}
}

func (k *customer) start() {
	o := &order{number: k.c.numbers.Add(1)}
	body := map[string]any{
		"agent": "worker", "threadId": k.thread, "content": fmt.Sprintf("go %d", o.number), "metadata": map[string]any{"order": fmt.Sprintf("o%d.", o.number)},
	}
	switch k.rng.IntN(4) {
	case 0:
		body["content"], o.extended = fmt.Sprintf("ask %d", o.number), true
	case 1:
		body["agent"], body["content"] = "scripted", strings.ReplaceAll(scripts[k.rng.IntN(len(scripts))], `"say":"`, fmt.Sprintf(`"say":"%d `, o.number))
	}
	if how := k.rng.IntN(10); how < 2 {
		body["multitask"] = []string{"interrupt", "rollback"}[how]
		for _, other := range k.runs {
			other.mayEnd = true
		}
	}
	key := k.key(o.number)
	k.runs = append(k.runs, o)
	var out map[string]any
	if o.outcome, out = k.send("POST", "/api/v1/agent/runs", body, key); o.outcome != done {
		return
	}
	o.run, _ = out["runId"].(string)
	k.mu.Lock()
	k.accepted = append(k.accepted, o)
	k.mu.Unlock()
	if key != "" && k.rng.IntN(2) == 0 {
		if again, out := k.send("POST", "/api/v1/agent/runs", body, key); again == done && out["runId"] != o.run {
			k.c.t.Errorf("thread %s: key %s has started run %s, and then answers with run %v", k.thread, key, o.run, out["runId"])
		}
	}
}

func (k *customer) append(o *order) {
	a := &addition{order: o, number: k.c.numbers.Add(1)}
	k.appends = append(k.appends, a)
	o.extended = true
	a.outcome, _ = k.send("POST", runsAPI+"/"+o.run+"/messages", map[string]any{"content": fmt.Sprintf("go %d", a.number)}, k.key(a.number))
}

func (k *customer) cancel(o *order) {
	o.mayEnd = true
	got, _ := k.send("POST", runsAPI+"/"+o.run+"/cancel", nil, "")
	o.ends = o.ends || got == done
}

// answer answers the questions of a run, if it has any.
func (k *customer) answer(o *order) {
	got, out := k.send("GET", runsAPI+"/"+o.run, nil, "")
	if got != done || out["status"] != "WAITING" {
		return
	}
	o.extended = true
	list, _ := out["interrupts"].([]any)
	var resume []map[string]any
	for _, q := range list {
		q, _ := q.(map[string]any)
		resume = append(resume, map[string]any{"interruptId": q["id"], "status": "resolved", "payload": map[string]any{"seat": 12}})
	}
	k.send("POST", runsAPI+"/"+o.run+"/resume", map[string]any{"resume": resume}, k.key(k.c.numbers.Add(1)))
}

func (k *customer) delete(o *order) {
	got, _ := k.send("DELETE", runsAPI+"/"+o.run, nil, "")
	o.deleted = got
}

// traveller watches a thread at one server after the other.
type traveller struct {
	k      *customer
	rng    *rand.Rand
	frames []frame
	ends   []end
	done   chan struct{}
}

// end is the end of a log as a server has told it: after so many events, when these requests had been accepted.
type end struct {
	after    int
	accepted []*order
}

// travel watches until a server says, once stop is closed, that there is no more.
func (v *traveller) travel(stop chan struct{}) {
	defer close(v.done)
	for {
		last := closedNow(stop)
		v.k.mu.Lock()
		accepted := slices.Clone(v.k.accepted)
		v.k.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond+upTo(v.rng, time.Second))
		s := v.k.c.any(v.rng)
		status, err := s.readWithin(ctx, events(v.k.thread), int64(len(v.frames)), func(f frame) bool {
			if f.id != int64(len(v.frames)+1) {
				v.k.c.t.Errorf("thread %s: server %s sends event %d after %d", v.k.thread, s.addr, f.id, len(v.frames))
			}
			v.frames = append(v.frames, f)
			return true
		})
		cancel()
		switch {
		case err != nil:
		case status == http.StatusNoContent, status == http.StatusNotFound && len(accepted) == 0:
			if status == http.StatusNoContent {
				v.ends = append(v.ends, end{len(v.frames), accepted})
			}
			if last {
				return
			}
		case status != http.StatusOK && status != http.StatusServiceUnavailable:
			v.k.c.t.Errorf("thread %s: server %s answers a reader of %d events with %d", v.k.thread, s.addr, len(v.frames), status)
			return
		}
		pause(upTo(v.rng, 100*time.Millisecond))
	}
}
