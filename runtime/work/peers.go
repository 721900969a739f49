package work

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/queue"
)

// The instances of a cluster describe themselves and their offers to each other. These descriptions are some seconds
// old: they decide only whether a run that this one cannot execute waits for another, and whether a run is handed over.

const (
	// tellEach is the shortest time between two descriptions by an instance.
	tellEach = 3 * time.Second
	// maxAbout is the largest description of an instance, in bytes. The offer of one with more is not sent.
	maxAbout = 1 << 20
	// mostNeeds is the number of runs whose nodes are remembered.
	mostNeeds = 20_000
)

// Identity describes an instance's process and settings.
type Identity struct {
	Name     string            `json:"name"`             // of its host
	Version  string            `json:"version"`          // of the program
	Schema   int64             `json:"schema"`           // of the database, 0 if it is not known
	Role     string            `json:"role,omitempty"`   // empty for everything, or one of the roles below
	Labels   []string          `json:"labels,omitempty"` // see plugins.Info.RunOn
	Settings map[string]string `json:"settings"`         // hashes of the settings that all servers should have in common, by their names
}

// Roles of instances of a cluster. A gateway executes no runs and starts no plugins; a worker serves no clients.
const (
	Gateway = "gateway"
	Worker  = "worker"
)

// ServerCounts are numbers of living instances, at least one each.
type ServerCounts struct {
	Clients int // that serve clients, and do not stop
	Runs    int // that execute runs
}

// CountServers returns how many instances live, as they were last read.
func (p *peers) CountServers() ServerCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ServerCounts{max(p.counts.Clients, 1), max(p.counts.Runs, 1)}
}

// Load is the present work of an instance.
type Load struct {
	Running int `json:"running"` // runs that it executes
	Free    int `json:"free"`    // runs that it can execute beside them
	Queued  int `json:"queued"`  // QUEUED runs that it knows of, of all servers

	Deaf bool `json:"deaf,omitempty"` // hints of other servers do not arrive
}

// Server is a living instance. Before its first description it has no Identity.
type Server struct {
	ID, Addr          string
	StartedAt, SeenAt time.Time // by the database's clock; zero without a cluster
	Draining          bool      // it stops, and takes no run
	Identity
	Load
	Offer []host.Offered // nil while it is not known: the instance then counts as one that may execute anything
}

// about is the part of a description that seldom changes.
type about struct {
	Identity
	Offer []host.Offered `json:"offer"`
}

// peers are the instances of a cluster.
type peers struct {
	aloneUntil atomic.Int64 // until when this instance knows that no other lives
	lookedAt   atomic.Int64 // when the last look at all logs has begun

	mu      sync.Mutex // guards the fields below
	counts  ServerCounts
	servers []Server           // ordered by id, also this one
	known   map[string]*Server // descriptions, by their hashes
	sent    string             // the hash of the description that this instance has sent
	load    Load               // as it was sent
	sentAt  time.Time
	// needs has the nodes of runs that were started with workflows which this instance has no more, or has with others. nodesRead counts
	// those that were read since the last sweep.
	needs     map[int64][]plugins.Node
	nodesRead int
	// missing has the runs that no instance may execute, and since when; next is the one that a sweep fills.
	missing, next map[int64]absence
}

// absence is a run that no instance may execute.
type absence struct {
	run   data.RunHead
	since time.Time
}

func newPeers() *peers {
	return &peers{known: make(map[string]*Server), needs: make(map[int64][]plugins.Node), next: make(map[int64]absence)}
}

// Definition returns the definition of the workflow that a run of a project stores at its start, or nil.
func (en *Engine) Definition(project, workflow string) json.RawMessage {
	own := en.currentOffer()
	if _, ok := own.plugins.For(project).Workflow(workflow); !ok {
		return nil
	}
	return own.graphs.Workflow(workflow).Definition
}

// IsOffered reports whether another instance offers an agent, a tool or a workflow of that name in a project, as they were last read.
func (en *Engine) IsOffered(project, name string) bool {
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	return slices.ContainsFunc(en.servers, func(s Server) bool {
		return s.ID != en.cfg.Instance && slices.ContainsFunc(s.Offer, func(o host.Offered) bool { return o.Name == name && o.In(project) })
	})
}

// Servers returns the living instances as they were last read, this one first.
func (en *Engine) Servers() []Server {
	en.peers.mu.Lock()
	list := slices.Clone(en.servers)
	en.peers.mu.Unlock()
	own := Server{ID: en.cfg.Instance, Identity: en.cfg.Identity, Offer: en.Plugins().Offer(), Load: en.loadNow(), Draining: en.Stopping()}
	if at := slices.IndexFunc(list, func(s Server) bool { return s.ID == own.ID }); at >= 0 {
		own.Addr, own.StartedAt, own.SeenAt = list[at].Addr, list[at].StartedAt, list[at].SeenAt
		list = slices.Delete(list, at, at+1)
	}
	return slices.Insert(list, 0, own)
}

// OthersLive reports whether another instance may live. What only others need is spared while this instance has seen none for some time:
// one that has just joined may wait a second longer for it.
func (p *peers) OthersLive() bool { return time.Now().UnixNano() >= p.aloneUntil.Load() }

func (en *Engine) loadNow() Load {
	l := Load{Running: en.countRuns(), Free: max(en.queue.Free(), 0), Queued: en.queue.Queued("", "").All, Deaf: en.link.Stats().Deaf}
	if en.cfg.Identity.Role == Gateway || en.Stopping() {
		l.Free = 0
	}
	return l
}

// introduce sends the others the changes of this instance, if it is time.
func (en *Engine) introduce(ctx context.Context) error {
	en.peers.mu.Lock()
	sent, load, at := en.sent, en.load, en.sentAt
	en.peers.mu.Unlock()
	if time.Since(at) < tellEach {
		return nil
	}
	a := about{en.cfg.Identity, en.Plugins().Offer()}
	s := data.Server{About: mustJSON(a)}
	if len(s.About) > maxAbout {
		a.Offer = nil
		s.About = mustJSON(a)
	}
	sum := sha256.Sum256(s.About)
	if s.Hash = hex.EncodeToString(sum[:]); s.Hash == sent {
		s.About = nil
	}
	now := en.loadNow()
	if s.About != nil && a.Offer == nil {
		en.log.Warn("this server offers too much to tell the others: for them it may execute anything")
	}
	if s.About != nil || now != load {
		s.Load = mustJSON(now)
		if err := en.store.Tell(ctx, &s); err != nil {
			return err
		}
	}
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	en.sent, en.load, en.sentAt = s.Hash, now, time.Now()
	return nil
}

// meet reads the descriptions of the other instances.
func (en *Engine) meet(ctx context.Context) error {
	en.peers.mu.Lock()
	known := slices.Collect(maps.Keys(en.known))
	en.peers.mu.Unlock()
	rows, err := en.store.Servers(ctx, known)
	if err != nil {
		en.peers.mu.Lock()
		defer en.peers.mu.Unlock()
		clear(en.missing) // the time without an answer does not count
		return err
	}
	en.learn(rows)
	return nil
}

// learn remembers the descriptions of the instances.
func (p *peers) learn(rows []data.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used, list := make(map[string]*Server), make([]Server, len(rows))
	var counts ServerCounts
	for i := range rows {
		row := &rows[i]
		about := p.known[row.Hash]
		if about == nil {
			about = new(readServer(row))
		}
		if row.Hash != "" {
			used[row.Hash] = about
		}
		list[i] = about.in(row)
		if about.Role != Worker && !row.Draining {
			counts.Clients++
		}
		if about.Role != Gateway {
			counts.Runs++
		}
	}
	p.counts, p.servers, p.known = counts, list, used
}

// ReadServer reads the description of an instance.
func ReadServer(row *data.Server) Server {
	s := readServer(row)
	return s.in(row)
}

// readServer reads the part that seldom changes. It is empty before the first description, and for a later version.
func readServer(row *data.Server) Server {
	var a about
	_ = json.Unmarshal(row.About, &a)
	return Server{Identity: a.Identity, Offer: a.Offer}
}

// in returns the server with the part that often changes.
func (s *Server) in(row *data.Server) Server {
	now := *s
	now.ID, now.Addr, now.StartedAt, now.SeenAt, now.Draining = row.Instance, row.Addr, row.StartedAt, row.SeenAt, row.Draining
	_ = json.Unmarshal(row.Load, &now.Load) // empty before the first Tell
	return now
}

// canExecute reports whether this instance may execute a run with these nodes, nil for those of its workflow: it has the agents and
// tools, and the agents' labels.
func (en *Engine) canExecute(run *data.RunHead, nodes []plugins.Node) bool {
	if en.cfg.Identity.Role == Gateway {
		return false
	}
	reg := en.Plugins().For(run.Project)
	if nodes == nil {
		w, ok := reg.Workflow(run.WorkflowID)
		if !ok {
			return false
		}
		nodes = w.Nodes
	}
	return !slices.ContainsFunc(nodes, func(n plugins.Node) bool {
		if n.Agent == "" {
			_, is := reg.Tool(n.Tool)
			_, boxed := reg.Toolbox(n.Tool)
			return !is && !boxed
		}
		a, ok := reg.Agent(n.Agent)
		return !ok || a.Info().RunOn != "" && !slices.Contains(en.cfg.Identity.Labels, a.Info().RunOn)
	})
}

// mayExecute reports whether another instance may execute these nodes for a project, as far as it has told.
func (s *Server) mayExecute(project string, nodes []plugins.Node) bool {
	if s.Role == Gateway || s.Draining {
		return false
	}
	return s.Offer == nil || !slices.ContainsFunc(nodes, func(n plugins.Node) bool {
		return !slices.ContainsFunc(s.Offer, func(o host.Offered) bool {
			return o.Executes(&n) && o.In(project) && (o.RunOn == "" || slices.Contains(s.Labels, o.RunOn))
		})
	})
}

// nodesOf returns the nodes of a run, as far as its head has them: nil means those of its workflow.
func (p *peers) nodesOf(run *data.RunHead) []plugins.Node {
	if run.Agent != "" {
		return []plugins.Node{{Agent: run.Agent}}
	}
	if tool, ok := graph.ToolOf(run.WorkflowID); ok {
		return []plugins.Node{{Tool: tool}}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.needs[run.Key]
}

// offersRun is canExecute for the nodes of a run, as far as its head has them.
func (en *Engine) offersRun(run *data.RunHead) bool { return en.canExecute(run, en.nodesOf(run)) }

// offersFound is offersRun for a run that was found in the database. If this instance does not have the run's workflow, it reads what the
// run was started with. known is false if that is not possible now.
func (en *Engine) offersFound(ctx context.Context, run *data.RunHead) (offers, known bool) {
	if offers = en.offersRun(run); offers || en.nodesOf(run) != nil {
		return offers, true
	}
	if !en.readNodes(ctx, run) {
		return false, false
	}
	if offers = en.offersRun(run); offers {
		en.queue.Wake(false) // it may wait here
	}
	return offers, true
}

// readNodes reads with which nodes a run was started. It reports false if that is not possible now.
func (en *Engine) readNodes(ctx context.Context, head *data.RunHead) bool {
	en.peers.mu.Lock()
	en.nodesRead++
	most := en.nodesRead > readAtSweep
	en.peers.mu.Unlock()
	if most {
		return false
	}
	run, err := en.store.Run(ctx, head.Key)
	if err != nil {
		return false
	}
	w, err := graph.Definition(&run)
	if err != nil { // whoever claims it fails it
		w.Nodes = nil
	}
	en.remember(head.Key, append([]plugins.Node{}, w.Nodes...))
	return true
}

func (en *Engine) remember(run int64, nodes []plugins.Node) {
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	en.needs[run] = nodes
}

// servers is what the queue knows of the cluster.
type servers struct{ *Engine }

// Offers implements queue.Servers: other runs of a workflow may have begun with other nodes.
func (s servers) Offers(run *data.RunHead) (offers, others bool) {
	if s.offersRun(run) {
		return true, true
	}
	return false, run.Agent == "" && s.nodesOf(run) != nil
}

// Elsewhere implements queue.Servers.
func (s servers) Elsewhere(run *data.RunHead) (may, free bool) { return s.others(run, s.nodesOf(run)) }

// declines reports whether a run was started with a workflow some of whose agents or tools this instance lacks. The run is left to others.
func (en *Engine) declines(l *live) bool {
	run := &l.run.RunHead
	if !en.shared || en.canExecute(run, l.plan()) {
		return false
	}
	en.remember(run.Key, l.plan())
	return true
}

// plan returns the nodes of the run's graph.
func (l *live) plan() []plugins.Node {
	nodes := make([]plugins.Node, len(l.nodes.graph.Nodes))
	for i, n := range l.nodes.graph.Nodes {
		nodes[i] = n.Node
	}
	return nodes
}

// others reports whether another instance that does not stop may execute a run with these nodes, and whether one of them has a free
// slot. Any instance may execute nil, nodes that have not been read yet.
func (en *Engine) others(run *data.RunHead, nodes []plugins.Node) (may, free bool) {
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	for i := range en.servers {
		s := &en.servers[i]
		if s.ID != en.cfg.Instance && s.mayExecute(run.Project, nodes) {
			may, free = true, free || s.Free > 0
		}
	}
	return may, free
}

// noteAbsent notes the queued runs that no instance may execute.
func (en *Engine) noteAbsent(ctx context.Context) error {
	return en.eachPlace(ctx, data.Place{}, data.EachProject, func(project data.Place) error {
		return en.eachPlace(ctx, data.Place{Project: project.Project}, data.EachLane, func(lane data.Place) error {
			if head := lane.Head(); en.offersOrNotes(ctx, &head) {
				return nil
			}
			return en.eachPlace(ctx, lane, data.EachRow, func(row data.Place) error {
				run := row.Head()
				en.offersOrNotes(ctx, &run)
				return nil
			})
		})
	})
}

// eachPlace calls f with rows of the queue behind a place.
func (en *Engine) eachPlace(ctx context.Context, after data.Place, each data.Each, f func(data.Place) error) error {
	const limit = 100
	for {
		rows, err := en.store.Line(ctx, after, each, limit)
		if err != nil {
			return err
		}
		for i := range rows {
			if after = rows[i]; en.Stopping() {
				return nil
			}
			if err := f(after); err != nil {
				return err
			}
		}
		if len(rows) < limit {
			return nil
		}
	}
}

// offersOrNotes is offersFound. It notes a run that no instance may execute.
func (en *Engine) offersOrNotes(ctx context.Context, run *data.RunHead) bool {
	offers, known := en.offersFound(ctx, run)
	if offers || !known {
		return offers
	}
	if may, _ := en.others(run, en.nodesOf(run)); may {
		return false
	}
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	since := time.Now()
	if a, ok := en.missing[run.Key]; ok {
		since = a.since
	}
	en.next[run.Key] = absence{*run, since}
	return false
}

// endAbsent ends a sweep: it fails the runs that no instance could execute for too long.
func (en *Engine) endAbsent(ctx context.Context) error {
	en.peers.mu.Lock()
	en.missing, en.next = en.next, make(map[int64]absence)
	var over []data.RunHead
	for _, a := range en.missing {
		if time.Since(a.since) >= en.cfg.AgentGone && len(over) < readAtSweep {
			over = append(over, a.run)
		}
	}
	if en.nodesRead = 0; len(en.needs) > mostNeeds { // they are found again
		clear(en.needs)
	}
	en.peers.mu.Unlock()
	slices.SortFunc(over, func(a, b data.RunHead) int { return cmp.Compare(b.Status, a.Status) }) // RUNNING before QUEUED
	var errs []error
	for i := range over {
		errs = append(errs, en.failAbsent(ctx, &over[i]))
	}
	return errors.Join(errs...)
}

var agentGone = &agui.OutputError{Code: "agent_gone", Message: "No server has offered what the run needs for too long"}

func (en *Engine) failAbsent(ctx context.Context, head *data.RunHead) error {
	var err error
	if head.Status == data.Queued {
		err = en.closeRun(head.ThreadKey, head.Key, ending{status: data.Failed, err: agentGone}, func(run *data.Run, _ []data.Span) bool {
			return run.Status == data.Queued
		})
	} else {
		var run data.Run
		run, err = commit.RetryUnavailable(ctx, func() (data.Run, error) { return en.store.Run(ctx, head.Key) })
		if err == nil && run.Status == data.Running && run.Owner == head.Owner {
			err = en.fail(ctx, &run, fromLog, agentGone, nil, nil)
		}
	}
	if overtaken(err) || errors.Is(err, errGoesOn) || errors.Is(err, decide.ErrNotClaimed) { // a later sweep tries again
		return nil
	}
	return err
}

// waitsForServer returns that no instance may execute a run, or nil.
func (en *Engine) waitsForServer(run *data.RunHead) *queue.Wait {
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	a, ok := en.missing[run.Key]
	if !ok || a.run.Status != run.Status {
		return nil
	}
	return &queue.Wait{Reason: "no_server", Since: a.since, Until: a.since.Add(en.cfg.AgentGone)}
}
