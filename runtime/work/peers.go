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
)

// The instances of a cluster describe themselves and their offers to each other. These descriptions are some seconds
// old: they decide only which runs this one leaves to them.

const (
	// tellEach is the shortest time between two descriptions by an instance.
	tellEach = 3 * time.Second
	// maxAbout is the largest description of an instance, in bytes.
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

// Roles of instances of a cluster. A gateway executes no runs; a worker serves no clients.
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
	Offer host.Offer

	plugins *host.Registry // of Offer
	hash    string         // of its description, empty before it has sent one
}

// about is the part of a description that seldom changes.
type about struct {
	Identity
	Offer host.Offer `json:"offer"`
}

// peers are the instances of a cluster.
type peers struct {
	catalog atomic.Pointer[host.Registry] // the plugins of all instances
	beside  atomic.Int64                  // other instances that may write

	mu      sync.Mutex // guards the fields below
	counts  ServerCounts
	servers []Server           // the living ones, ordered by id, also this one
	ended   []Server           // those that have ended in the last minute: what they offered is accepted, and waits
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

func newPeers(own *host.Registry) *peers {
	p := &peers{known: make(map[string]*Server), needs: make(map[int64][]plugins.Node), next: make(map[int64]absence)}
	p.catalog.Store(own)
	return p
}

// Catalog returns the plugins that this instance or another one of the cluster offers, or has offered until a minute ago. It serves
// lookups only.
func (p *peers) Catalog() *host.Registry { return p.catalog.Load() }

// Definition returns the definition of the workflow that a run of a project stores at its start, or nil.
func (en *Engine) Definition(project, workflow string) json.RawMessage {
	own := en.currentOffer()
	if _, ok := own.plugins.For(project).Workflow(workflow); ok {
		return own.graphs.Workflow(workflow).Definition
	}
	w, ok := en.Catalog().For(project).Workflow(workflow)
	if !ok {
		return nil
	}
	definition, err := json.Marshal(w)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return definition
}

// Servers returns the living instances as they were last read, this one first.
func (en *Engine) Servers() []Server {
	en.peers.mu.Lock()
	list := slices.Clone(en.servers)
	en.peers.mu.Unlock()
	own := en.here()
	own.Offer, own.Load, own.Draining = own.plugins.Offer(), en.loadNow(), en.Stopping()
	if at := slices.IndexFunc(list, func(s Server) bool { return s.ID == own.ID }); at >= 0 {
		own.Addr, own.StartedAt, own.SeenAt = list[at].Addr, list[at].StartedAt, list[at].SeenAt
		list = slices.Delete(list, at, at+1)
	}
	return slices.Insert(list, 0, own)
}

// here is this instance.
func (en *Engine) here() Server {
	return Server{ID: en.cfg.Instance, Identity: en.cfg.Identity, plugins: en.Plugins()}
}

// OthersLive reports whether another instance may write, as the last look has seen them, a second ago. What is sent and read only for
// others is spared while none lives: a new one may wait a second longer for it.
func (p *peers) OthersLive() bool { return p.beside.Load() > 0 }

func (en *Engine) loadNow() Load {
	l := Load{Running: en.countRuns(), Free: max(en.admission.free(), 0), Queued: en.QueuedOf("", "").All, Deaf: en.link.Stats().Deaf}
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
	about, partial := en.describe()
	s := data.Server{About: about}
	sum := sha256.Sum256(s.About)
	if s.Hash = hex.EncodeToString(sum[:]); s.Hash == sent {
		s.About = nil
	}
	now := en.loadNow()
	if s.About != nil && partial {
		en.log.Warn("this server offers too much to tell the others: what they do not know begins here only")
	}
	if s.About != nil || now != load {
		var err error
		if s.Load, err = json.Marshal(now); err != nil {
			panic(err) // numbers always encode
		}
		if err := en.store.Tell(ctx, &s); err != nil {
			return err
		}
	}
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	en.sent, en.load, en.sentAt = s.Hash, now, time.Now()
	return nil
}

// describe returns this instance's description, without parts of its offer if that is too long. A gateway offers nothing.
func (en *Engine) describe() (text []byte, partial bool) {
	a := about{Identity: en.cfg.Identity}
	if a.Role != Gateway {
		a.Offer = en.Plugins().Offer()
	}
	text, err := json.Marshal(a)
	for n := 0; n < 4 && (err != nil || len(text) > maxAbout); n++ { // a tool of another program may have a schema that is no JSON
		a.Offer = a.Offer.Shorter(n)
		text, err = json.Marshal(a)
	}
	return text, a.Offer.Partial
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
	if en.learn(rows) {
		en.unite()
	}
	return nil
}

// learn remembers the descriptions of the instances. It reports whether their plugins may have changed.
func (en *Engine) learn(rows []data.Server) (changed bool) {
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	used, list, living := make(map[string]*Server), make([]Server, 0, len(rows)), 0
	var counts ServerCounts
	for i := range rows {
		row := &rows[i]
		about := en.known[row.Hash]
		if about == nil {
			about = new(readServer(row))
		}
		if row.Hash != "" {
			used[row.Hash] = about
		}
		list = append(list, about.in(row))
		if row.Ended {
			continue
		}
		living++
		if about.Role != Worker && !row.Draining {
			counts.Clients++
		}
		if about.Role != Gateway {
			counts.Runs++
		}
	}
	en.counts = counts
	changed = !slices.EqualFunc(slices.Concat(en.servers, en.ended), list, func(a, b Server) bool { return a.ID == b.ID && a.hash == b.hash })
	en.servers, en.ended, en.known = list[:living:living], list[living:], used
	return changed
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
	return Server{Identity: a.Identity, Offer: a.Offer, plugins: a.Offer.Registry(), hash: row.Hash}
}

// in returns the server with the part that often changes.
func (s *Server) in(row *data.Server) Server {
	now := *s
	now.ID, now.Addr, now.StartedAt, now.SeenAt, now.Draining = row.Instance, row.Addr, row.StartedAt, row.SeenAt, row.Draining
	_ = json.Unmarshal(row.Load, &now.Load) // empty before the first Tell
	return now
}

// unite makes the catalog, after a change here or elsewhere.
func (en *Engine) unite() {
	en.peers.mu.Lock()
	var others []*host.Registry
	for _, s := range slices.Concat(en.servers, en.ended) {
		if s.ID != en.cfg.Instance {
			others = append(others, s.plugins)
		}
	}
	own := en.Plugins()
	if len(others) > 0 {
		own = own.With(others)
	}
	en.catalog.Store(own)
	en.peers.mu.Unlock()
	en.cfg.Offered(own)
	en.looker.heed(false)
}

// executes reports whether an instance may execute a run with these nodes, nil for those of its workflow.
func (s *Server) executes(run *data.RunHead, nodes []plugins.Node) bool {
	if s.Role == Gateway {
		return false
	}
	reg := s.plugins.For(run.Project)
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
		return !ok || a.Info().RunOn != "" && !slices.Contains(s.Labels, a.Info().RunOn)
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

// offersRun reports whether this instance may execute a run: it has the run's agents and tools, and their labels.
func (en *Engine) offersRun(run *data.RunHead) bool {
	own := en.here()
	return own.executes(run, en.nodesOf(run))
}

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
		en.looker.heed(false) // it may wait here
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

// declines reports whether a run was started with a workflow some of whose agents or tools this instance lacks. The run is left to others.
func (en *Engine) declines(l *live) bool {
	own, run := en.here(), &l.run.RunHead
	if !en.shared || own.executes(run, l.plan()) {
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

// others reports whether another instance that does not stop may execute a run with these nodes, nil for those of its workflow, and
// whether one of them has a free slot. maybe counts also servers whose offer is not fully known.
func (en *Engine) others(run *data.RunHead, nodes []plugins.Node) (maybe, any, free bool) {
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	for i := range en.servers {
		s := &en.servers[i]
		if s.ID == en.cfg.Instance || s.Draining {
			continue
		}
		executes := s.executes(run, nodes)
		maybe = maybe || executes || s.hash == "" || s.Offer.Partial
		any, free = any || executes, free || executes && s.Free > 0
	}
	return maybe, any, free
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
	if maybe, _, _ := en.others(run, en.nodesOf(run)); maybe {
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
func (en *Engine) waitsForServer(run *data.RunHead) *Wait {
	en.peers.mu.Lock()
	defer en.peers.mu.Unlock()
	a, ok := en.missing[run.Key]
	if !ok || a.run.Status != run.Status {
		return nil
	}
	return &Wait{Reason: "no_server", Since: a.since, Until: a.since.Add(en.cfg.AgentGone)}
}
