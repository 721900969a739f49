package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/runtime/bus/natsbus/natstest"
	"github.com/batonrun/baton/storage/storagetest"
)

var seed = flag.Uint64("seed", rand.Uint64(), "the seed of the cluster test's first round; the next one's is one higher")

// cluster is three servers that execute the runs of one PostgreSQL database, each behind a proxy of its own.
type cluster struct {
	t        *testing.T
	postgres *storagetest.Cluster
	q        *sqlx.DB // past the proxies
	servers  []*server
	proxies  []*storagetest.Proxy
	nats     *natstest.Server     // nil if PostgreSQL carries the hints
	hints    []*storagetest.Proxy // before nats
	notes    string               // file with what the tools have done
	numbers  atomic.Int64         // of messages

	reviving [3]sync.Mutex
	exits    [3][]int // with which servers have ended; guarded by reviving
}

// declare writes the settings and agents of all servers, and returns the environment that names them.
func (c *cluster) declare() []string {
	provider := llmtest.New(func(r *llmtest.Request) llmtest.Script { return c.reply(asked(r)) })
	c.t.Cleanup(provider.Close)
	self, err := os.Executable()
	must(c.t, err)
	dir := c.t.TempDir()
	c.notes = filepath.Join(dir, "notes")
	file := fmt.Sprintf(`
timeouts: {lease: %v, drain: 100ms}
agents:
  worker: {provider: openai, base_url: %s/v1, api_key: key, model: m, tools: [tools.*]}
mcp:
  tools: {command: [%s], env: {%s: %s}, required: true}
`, lease, provider.URL, self, notes, c.notes)
	path := filepath.Join(dir, "baton.yaml")
	must(c.t, os.WriteFile(path, []byte(file), 0o600))
	return []string{"BATON_CONFIG=" + path}
}

var numbered = regexp.MustCompile(`(go|ask) (\d+)$`)

// reply is a model that makes two calls for each message, one after the other. A call's number is that of its message with one
// more digit.
func (c *cluster) reply(p prompt) llmtest.Script {
	if err := p.err(); err != nil {
		c.t.Errorf("a prompt is not valid: %v: %v", err, p)
	}
	verb, number := "", 0
	for _, m := range p.Messages {
		if found := numbered.FindStringSubmatch(fmt.Sprint(m.Content)); found != nil && m.Role == "user" {
			verb = found[1]
			number, _ = strconv.Atoi(found[2])
		}
	}
	turn := p.turn()
	steps := llmtest.Tokens(15, fmt.Sprintf("%d-%d ", number, turn))
	switch {
	case verb == "ask" && turn == 0:
		steps = append(steps, note(0, "book", 10*number)...)
	case turn < 2:
		steps = append(steps, note(0, "note", 10*number+turn)...)
	}
	return llmtest.Script{Steps: steps, Pace: 15 * time.Millisecond}
}

// Three servers of a cluster lose, repeat and reorder nothing, whatever happens to them, their connections, the database and its
// clock.
func TestCluster_SurvivesNemeses(t *testing.T) {
	t.Parallel()
	rounds := 4
	if os.Getenv("BATON_SOAK") != "" {
		rounds = 500
	}
	newCluster(t, nil).play(rounds)
}

// Nor do those whose hints go over NATS, whatever happens to it.
func TestClusterOverNATS_SurvivesNemeses(t *testing.T) {
	t.Parallel()
	rounds := 1
	if os.Getenv("BATON_SOAK") != "" {
		rounds = 100
	}
	c := newCluster(t, natstest.Start(t, ""))
	c.allHear(true)
	c.nats.Kill()
	c.allHear(false)
	c.nats.Launch()
	c.play(rounds)
	c.allHear(true)
}

// allHear waits until the hints of the others reach each server, or none.
func (c *cluster) allHear(want bool) {
	c.t.Helper()
	deaf := "\nbaton_hints_deaf 1\n"
	if want {
		deaf = "\nbaton_hints_deaf 0\n"
	}
	for _, s := range c.servers {
		s.until(fmt.Sprintf("told that it hears (%v) by server %s", want, s.addr), func() bool {
			res, err := http.Get(s.url("/metrics"))
			if err != nil {
				return false
			}
			defer func() { _ = res.Body.Close() }()
			text, _ := io.ReadAll(res.Body)
			return strings.Contains(string(text), deaf)
		})
	}
}

// play plays rounds of disturbances.
func (c *cluster) play(rounds int) {
	c.t.Helper()
	for round := range rounds {
		c.round(round, *seed+uint64(round))
		if c.t.Failed() {
			c.t.Fatalf("in round %d: repeat it with -seed %d", round, *seed+uint64(round))
		}
	}
}

func (c *cluster) round(n int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	own := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), 0)) }
	stop, quiet := make(chan struct{}), make(chan struct{})
	var customers []*customer
	var travellers []*traveller
	var shopping sync.WaitGroup
	for i := range 6 {
		k := &customer{c: c, rng: own(), thread: fmt.Sprintf("r%d-%d", n, i), deletes: i == 0}
		customers = append(customers, k)
		shopping.Go(func() { k.shop(stop) })
		for range 2 {
			if k.deletes {
				break
			}
			v := &traveller{k: k, rng: own(), done: make(chan struct{})}
			travellers = append(travellers, v)
			go v.travel(quiet) // ends after quiet is closed
		}
	}
	began := time.Now()
	pause(upTo(rng, time.Second))
	did := c.strike(rng)
	var names []string
	for _, n := range did {
		names = append(names, n.name)
	}
	took := []time.Duration{time.Since(began)}
	for _, f := range []func(){func() { close(stop); shopping.Wait() }, c.heal, c.settle} {
		began = time.Now()
		f()
		took = append(took, time.Since(began).Round(time.Millisecond))
	}
	c.t.Logf("round %d, seed %d: %s; disturbed, answered, healed and quiet in %v", n, seed, strings.Join(names, " and "), took)
	c.checkExits()
	close(quiet)
	for _, v := range travellers {
		select {
		case <-v.done:
		case <-time.After(patience):
			c.t.Fatalf("a viewer of thread %s still waits after event %d", v.k.thread, len(v.frames))
		}
	}
	c.check(customers, travellers)
}

// settle answers the questions of runs until all runs have ended. It fails if one does not go on.
func (c *cluster) settle() {
	c.t.Helper()
	rng := rand.New(rand.NewPCG(0, 0))
	k := &customer{c: c, rng: rng}
	deadline := time.Now().Add(lease + 2*time.Minute)
	for {
		var open []struct {
			ID, Status string
			Owner      string `db:"owner_instance"`
			Name       string `db:"thread_id"`
		}
		err := c.q.Select(&open, `SELECT r.id, r.status, r.owner_instance, t.thread_id FROM runs r JOIN threads t ON t.key = r.thread_key
			WHERE r.status IN ('QUEUED', 'RUNNING', 'WAITING')`)
		must(c.t, err)
		if len(open) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("these runs do not go on: %+v", open)
		}
		for _, r := range open {
			if r.Status == "WAITING" {
				k.answer(&order{run: r.ID})
			}
		}
		pause(50 * time.Millisecond)
	}
}

// check compares the logs, rows and files of a round with the clients' answers.
func (c *cluster) check(customers []*customer, travellers []*traveller) {
	c.t.Helper()
	for what, query := range map[string]string{
		"deadlocks": `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`,
		"overlapping ranges of events": `SELECT count(*) FROM (
			SELECT first_event_id, lag(last_event_id) OVER (PARTITION BY thread_key ORDER BY last_event_id, first_event_id) AS before
			FROM (SELECT thread_key, first_event_id, last_event_id FROM events UNION ALL SELECT thread_key, first_event_id, last_event_id FROM event_segments) e) r
			WHERE first_event_id <= before`,
		"begun records that have not ended": `SELECT count(*) FROM memos m JOIN runs r ON r.key = m.run_key WHERE m.begun AND NOT m.done AND r.status = 'COMPLETED' AND m.generation = r.generation`,
		"messages that were not read":       `SELECT count(*) FROM messages m JOIN runs r ON r.key = m.run_key WHERE m.state = 'queued' AND r.status = 'COMPLETED'`,
	} {
		if n := countOf(c.t, c.q, query); n > 0 {
			c.t.Errorf("%d %s", n, what)
		}
	}
	logs := make(map[string][]frame)
	for _, k := range customers {
		for i, s := range c.servers {
			frames := slices.DeleteFunc(c.logAt(s, k.thread), func(f frame) bool { // each reader gets its own where runs were deleted
				return k.deletes && (f.id == 0 || strings.HasSuffix(f.typ, "_SNAPSHOT"))
			})
			if i > 0 {
				sameFrames(c.t, k.thread+" at another server", logs[k.thread], frames)
			}
			logs[k.thread] = frames
		}
		if !k.deletes {
			checkLog(c.t, k.thread, logs[k.thread])
			checkOnce(c.t, k.thread, logs[k.thread])
		}
		k.check(logs[k.thread])
	}
	for _, v := range travellers {
		sameFrames(c.t, v.k.thread+" as it was seen", logs[v.k.thread], v.frames)
		v.check()
	}
	c.checkNotes(logs)
}

// logAt reads the log of a thread that has no open run, and returns nil if there is no such thread. A server that does not send the
// whole log is stopped with the stacks of its goroutines in the failure.
func (c *cluster) logAt(s *server, thread string) (frames []frame) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	status, err := s.readWithin(ctx, events(thread), 0, func(f frame) bool { frames = append(frames, f); return true })
	if err != nil || !slices.Contains([]int{http.StatusOK, http.StatusNoContent, http.StatusNotFound}, status) {
		_ = syscall.Kill(s.pid(), syscall.SIGQUIT)
		pause(time.Second)
		c.t.Fatalf("server %s does not send the log of thread %s: %d, %v, after %d events\n%s", s.addr, thread, status, err, len(frames), tail(s.output(), 200_000))
	}
	return frames
}

// checkNotes checks that no call was made twice, and that each call with a result was made.
func (c *cluster) checkNotes(logs map[string][]frame) {
	c.t.Helper()
	text, _ := os.ReadFile(c.notes) // the first note creates it
	made := make(map[string]int)
	for n := range strings.FieldsSeq(string(text)) {
		if made[n]++; made[n] == 2 {
			c.t.Errorf("note %s was made twice", n)
		}
	}
	for thread, frames := range logs {
		for i := range frames {
			content, _ := frames[i].event()["content"].(string)
			if n, ok := strings.CutPrefix(content, "noted "); ok && frames[i].typ == "TOOL_CALL_RESULT" && made[n] == 0 {
				c.t.Errorf("thread %s: %q is the result of a call that was not made", thread, content)
			}
		}
	}
}

// check compares the answers that a customer got with the database.
func (k *customer) check(frames []frame) {
	t := k.c.t
	t.Helper()
	for _, o := range k.runs {
		n := countOf(t, k.c.q, fmt.Sprintf(`SELECT count(*) FROM run_inputs WHERE metadata LIKE '%%"o%d."%%'`, o.number))
		switch {
		case o.deleted != refused:
		case n > 1, n == 0 && o.outcome == done, n > 0 && o.outcome == refused:
			t.Errorf("thread %s: %d runs for request %d, whose outcome was %d", k.thread, n, o.number, o.outcome)
		}
		if o.run == "" {
			continue
		}
		s := k.c.servers[o.number%3]
		status, row := s.call("GET", runsAPI+"/"+o.run, nil)
		switch {
		case o.deleted == done && status != 404:
			t.Errorf("thread %s: the deleted run %s answers with %d", k.thread, o.run, status)
		case o.deleted != refused:
		case row["status"] != "COMPLETED" && row["status"] != "CANCELLED", o.ends && row["status"] != "CANCELLED", !o.mayEnd && row["status"] != "COMPLETED":
			t.Errorf("thread %s: run %s is %v: %v; cancelled: %t, perhaps: %t", k.thread, o.run, row["status"], row["error"], o.ends, o.mayEnd)
		default:
			if !k.deletes && (row["status"] != "CANCELLED" || !o.extended) { // it may have been queued again
				s.checkRun(t, o.run, frames)
			}
		}
	}
	for _, a := range k.appends {
		n := countOf(t, k.c.q, fmt.Sprintf(`SELECT count(*) FROM messages WHERE message LIKE '%%"go %d"%%' AND message LIKE '%%"role":"user"%%'`, a.number))
		if n > 1 || n > 0 && a.outcome == refused || n == 0 && a.outcome == done && !a.mayEnd && a.deleted == refused {
			t.Errorf("thread %s: run %s has %d messages %d, whose outcome was %d", k.thread, a.run, n, a.number, a.outcome)
		}
	}
}

// check checks that the log had ended wherever a server has said so.
func (v *traveller) check() {
	t := v.k.c.t
	t.Helper()
	for _, e := range v.ends {
		if e.after > 0 && v.frames[e.after-1].typ != "RUN_FINISHED" && v.frames[e.after-1].typ != "RUN_ERROR" {
			t.Errorf("thread %s: a server says that the log ends with event %d, %s", v.k.thread, e.after, v.frames[e.after-1].typ)
		}
		for i := e.after; i < len(v.frames); i++ {
			run := v.frames[i].event()["runId"]
			if v.frames[i].typ == "RUN_STARTED" && slices.ContainsFunc(e.accepted, func(o *order) bool { return o.run == run && !o.extended }) {
				t.Errorf("thread %s: a server says that the log ends with event %d while run %v is to begin", v.k.thread, e.after, run)
			}
		}
	}
}
