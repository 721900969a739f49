package e2e

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/bus/natsbus/natstest"
	"github.com/batonrun/baton/storage/storagetest"
)

var nemeses = flag.String("nemeses", "", "the names of those that the rounds of the cluster test have, with commas; without any, each round chooses one or two")

// lease is that of the servers of a cluster under test.
const lease = 3 * time.Second

// nemesis disturbs a cluster for a while. It leaves only damage that cluster.heal repairs.
type nemesis struct {
	name   string
	strike func(c *cluster, rng *rand.Rand)
}

// fenced is the exit code of a server that was taken for dead. On a busy machine any server may stand still for a lease.
const fenced = 3

var allNemeses = []nemesis{
	{"kill", func(c *cluster, rng *rand.Rand) {
		for range 1 + rng.IntN(2) {
			i := rng.IntN(len(c.servers))
			c.servers[i].kill()
			pause(upTo(rng, 2*time.Second))
			c.revive(i)
		}
	}},
	{"stand still for a second", func(c *cluster, rng *rand.Rand) { c.standstill(rng, time.Second) }},
	{"stand still for three leases", func(c *cluster, rng *rand.Rand) { c.standstill(rng, 3*lease) }},
	{"cut one", func(c *cluster, rng *rand.Rand) {
		p := c.proxies[rng.IntN(len(c.proxies))]
		for range 5 {
			p.Cut()
			pause(upTo(rng, 200*time.Millisecond))
			p.Restore()
			pause(upTo(rng, 500*time.Millisecond))
		}
	}},
	{"cut one for longer than a lease", func(c *cluster, rng *rand.Rand) {
		p := c.proxies[rng.IntN(len(c.proxies))]
		p.Cut()
		pause(2*lease + upTo(rng, lease))
		p.Restore()
	}},
	{"cut all for longer than a lease", func(c *cluster, rng *rand.Rand) {
		for _, p := range c.proxies {
			p.Cut()
		}
		pause(lease + upTo(rng, lease))
		for _, p := range c.proxies {
			pause(upTo(rng, 300*time.Millisecond))
			p.Restore()
		}
	}},
	{"swallow", func(c *cluster, rng *rand.Rand) {
		p := c.proxies[rng.IntN(len(c.proxies))]
		p.Silent.Store(true)
		pause(upTo(rng, 2*lease))
		p.Cut() // what was swallowed is never sent again
		p.Restore()
	}},
	{"read nothing", func(c *cluster, rng *rand.Rand) {
		p := c.proxies[rng.IntN(len(c.proxies))]
		p.Stuck.Store(true)
		pause(upTo(rng, 2*lease))
		p.Restore()
	}},
	{"cut at any piece", func(c *cluster, rng *rand.Rand) {
		for range 20 { // also between COMMIT and its answer
			c.proxies[rng.IntN(len(c.proxies))].Left.Store(1 + rng.Int64N(40))
			pause(upTo(rng, 300*time.Millisecond))
		}
	}},
	{"delay", func(c *cluster, rng *rand.Rand) {
		p := c.proxies[rng.IntN(len(c.proxies))]
		p.Delay.Store(int64(5*time.Millisecond + upTo(rng, 30*time.Millisecond)))
		pause(lease)
		p.Restore()
	}},
	{"clock", func(c *cluster, rng *rand.Rand) {
		for _, hours := range []int{1 - 2*rng.IntN(2), 0} {
			c.servers[0].until("set the clock", func() bool { // PostgreSQL may be down
				_, err := c.q.Exec(`UPDATE shifted SET by = $1 * interval '1 hour'`, hours)
				return err == nil
			})
			pause(upTo(rng, lease))
		}
	}},
	{"drain", func(c *cluster, rng *rand.Rand) {
		i := rng.IntN(len(c.servers))
		c.servers[i].stop()
		c.revive(i)
	}},
	{"restart PostgreSQL", func(c *cluster, rng *rand.Rand) {
		must(c.t, c.postgres.Kill())
		pause(upTo(rng, lease))
		must(c.t, c.postgres.Start())
	}},
}

// busNemeses disturb NATS alone: no server may end, and nothing may be lost.
var busNemeses = []nemesis{
	{"cut NATS", func(c *cluster, rng *rand.Rand) {
		for range 3 {
			for _, i := range rng.Perm(len(c.hints))[:1+rng.IntN(len(c.hints))] {
				c.hints[i].Cut()
			}
			pause(upTo(rng, 3*time.Second))
			c.restoreHints()
			pause(upTo(rng, time.Second))
		}
	}},
	{"swallow hints", func(c *cluster, rng *rand.Rand) {
		c.hints[rng.IntN(len(c.hints))].Silent.Store(true)
		pause(2*time.Second + upTo(rng, 2*lease))
		c.restoreHints()
	}},
	{"swallow hints one way", func(c *cluster, rng *rand.Rand) {
		c.hints[rng.IntN(len(c.hints))].Mute.Store(true)
		pause(2*time.Second + upTo(rng, 2*lease))
		c.restoreHints()
	}},
	{"delay hints", func(c *cluster, rng *rand.Rand) {
		c.hints[rng.IntN(len(c.hints))].Delay.Store(int64(upTo(rng, 3*time.Second)))
		pause(lease + upTo(rng, lease))
		c.restoreHints()
	}},
	{"restart NATS", func(c *cluster, rng *rand.Rand) {
		c.nats.Kill()
		pause(upTo(rng, lease))
		c.nats.Launch()
	}},
}

func (c *cluster) restoreHints() {
	for _, p := range c.hints {
		p.Restore()
	}
}

// standstill stops a server for a while, as a virtual machine that is suspended.
func (c *cluster) standstill(rng *rand.Rand, d time.Duration) {
	s := c.servers[rng.IntN(len(c.servers))]
	pid := s.pid()
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	pause(d)
	_ = syscall.Kill(pid, syscall.SIGCONT)
}

// strike lets one or two nemeses do their work, and returns them. With NATS one of them disturbs it.
func (c *cluster) strike(rng *rand.Rand) []nemesis {
	var chosen []nemesis
	switch {
	case *nemeses != "":
		for name := range strings.SplitSeq(*nemeses, ",") {
			known := slices.Concat(allNemeses, busNemeses)
			i := slices.IndexFunc(known, func(n nemesis) bool { return n.name == name })
			if i < 0 {
				c.t.Fatalf("there is no nemesis %q", name)
			}
			chosen = append(chosen, known[i])
		}
	case c.nats != nil:
		chosen = append(chosen, busNemeses[rng.IntN(len(busNemeses))], allNemeses[rng.IntN(len(allNemeses))])
	default:
		for _, i := range rng.Perm(len(allNemeses))[:1+rng.IntN(2)] {
			chosen = append(chosen, allNemeses[i])
		}
	}
	var striking sync.WaitGroup
	for _, n := range chosen {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		striking.Go(func() {
			pause(upTo(own, time.Second))
			n.strike(c, own)
		})
	}
	striking.Wait()
	return chosen
}

// revive starts a server that has ended.
func (c *cluster) revive(i int) {
	c.reviving[i].Lock()
	defer c.reviving[i].Unlock()
	s := c.servers[i]
	s.mu.Lock()
	ended := s.done
	s.mu.Unlock()
	if !closedNow(ended) {
		return
	}
	c.exits[i] = append(c.exits[i], s.cmd.ProcessState.ExitCode())
	s.launch()
}

// heal ends all disturbances and waits until all servers have their place in the cluster.
func (c *cluster) heal() {
	c.t.Helper()
	c.restoreHints()
	for i, s := range c.servers {
		c.proxies[i].Restore()
		_ = syscall.Kill(s.pid(), syscall.SIGCONT)
	}
	for i, s := range c.servers {
		s.until("part of the cluster: server "+s.addr, func() bool {
			c.revive(i)
			return s.ready() && countOf(c.t, c.q, "SELECT count(*) FROM instances WHERE NOT fenced AND addr = '"+s.addr+"'") == 1
		})
	}
}

// unreached is the last line of a server that has started while the database was away.
var unreached = regexp.MustCompile(`(?m)^baton: .*(connect|database unavailable)`)

// checkExits checks that no server has ended by a fault.
func (c *cluster) checkExits() {
	c.t.Helper()
	may := []int{-1, 0, fenced} // killed, stopped
	for i, s := range c.servers {
		for _, code := range c.exits[i] {
			away := code == 1 && unreached.MatchString(tail(s.output(), 4000))
			if !slices.Contains(may, code) && !away {
				c.t.Errorf("server %s has ended with exit code %d", s.addr, code)
			}
		}
		c.exits[i] = nil
	}
}

// shiftClock lets a test move the database's clock: its functions are found before PostgreSQL's own in sessions with the search_path of
// shifting.
const shiftClock = `
CREATE TABLE shifted (by interval NOT NULL);
INSERT INTO shifted VALUES ('0');
CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp() + by FROM public.shifted';`

const shifting = "&search_path=public,pg_catalog"

// newCluster starts three servers, each behind a proxy. Their hints go over NATS, behind other proxies, if it is not nil.
func newCluster(t *testing.T, nats *natstest.Server) *cluster {
	t.Helper()
	pg := storagetest.StartPostgres(t)
	url := pg.NewDatabase(t) + shifting
	c := &cluster{t: t, postgres: pg, q: sqlOf(t, database{url: url}), nats: nats}
	c.q.MustExec(shiftClock)
	env := c.declare()
	for i := range c.reviving {
		p, through := storagetest.NewProxy(t, url)
		c.proxies = append(c.proxies, p)
		own := slices.Clone(env)
		if nats != nil {
			hints, over := storagetest.NewProxy(t, nats.URL)
			c.hints = append(c.hints, hints)
			own = append(own, "BATON_NATS="+over)
		}
		c.servers = append(c.servers, launch(t, database{url: through}, own...))
		if i == 0 {
			c.servers[0].whileUp("ready", c.servers[0].ready)
		}
	}
	c.heal()
	return c
}

// any returns one of the servers.
func (c *cluster) any(rng *rand.Rand) *server { return c.servers[rng.IntN(len(c.servers))] }

// outcome is a client's knowledge of its request.
type outcome int

const (
	refused outcome = iota
	done
	unknown
)

// outcomeOf returns the meaning of an answer.
func (c *cluster) outcomeOf(path string, status int, out map[string]any, err error) outcome {
	switch {
	case err != nil:
		return unknown
	case status < http.StatusBadRequest:
		return done
	case status == http.StatusInternalServerError:
		c.t.Errorf("%s: %d %v", path, status, out)
		return unknown
	case out["code"] == "outcome_unknown":
		return unknown
	}
	return refused
}

// upTo returns a random time below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
