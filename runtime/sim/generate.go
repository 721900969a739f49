package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Generate returns the history of a seed, for so many processes at the same time; 0 means that the seed decides. Each history uses only
// some kinds of steps and faults, so that rare ones meet often.
func Generate(seed uint64, servers int) *History {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0x5eed)), w: weighs(seed)}
	h := g.history(seed)
	h.limit()
	h.addSleeps()
	if h.beside(cmp.Or(servers, serversOf(seed))); h.several() {
		h.addScenes()
	} else if h.PerProject+h.PerUser > 0 && h.Parts == 0 {
		lineScene(h, rand.New(rand.NewPCG(seed, 0x11e)), 8000)
	}
	return h
}

// limit limits the RUNNING runs of users and projects in one of five histories.
func (h *History) limit() {
	r := rand.New(rand.NewPCG(h.Seed, 0xca95))
	switch r.IntN(10) {
	case 0:
		h.PerUser = 1 + r.IntN(2)
	case 1:
		h.PerProject = 1 + r.IntN(3)
		h.PerUser = r.IntN(h.PerProject)
	}
}

type generator struct {
	r, w    *rand.Rand
	ops     []string
	steps   []string
	runs    []*Step // the starts so far
	n       int
	pace    time.Duration
	threads []int
	keys    []int
}

func (g *generator) history(seed uint64) *History {
	g.ops = g.some(plainOps, 2+g.r.IntN(6))
	g.ops = append(g.ops, g.some([]string{"do", "sub", "go", "try", "think"}, g.r.IntN(4))...)
	g.steps = []string{doStart, doStart}
	g.steps = append(g.steps, g.some([]string{
		doStart, doAppend, doAppend, doCancel, doCancel, doAnswer, doAnswer, doReply, doDelete, doClear, doTitle, doRead, doRead, doLook, doLook,
		doRetire, doRetire, doWipe, doSeal,
	}, 3+g.r.IntN(7))...)
	if g.r.IntN(2) == 0 {
		g.steps = append(g.steps, g.some([]string{doCrash, doRestart, doClock}, 1+g.r.IntN(2))...)
	}
	troubles := []Trouble{Away, Lost, Full, Refused, Slow, Silent, KillBefore, KillAfter, GivenUp, Conflict, Locked}
	if g.r.IntN(6) == 0 {
		f := focuses[g.r.IntN(len(focuses))]
		g.ops, g.steps, troubles = f.ops, f.steps, f.troubles
	}
	var room *Room
	if g.w.IntN(4) == 0 {
		room = g.room()
		g.ops = append(g.ops, "tell", "fetch")
		if i := g.w.IntN(3); i < len(heavy) {
			g.ops, g.steps = heavy[i].ops, heavy[i].steps
		}
		if room.Pipe > 0 { // a run that waits for the pipe holds its mutex, which stops the bubble's time
			g.ops = slices.DeleteFunc(slices.Clone(g.ops), func(op string) bool { return op == "go" })
		}
	}
	if slices.Contains(g.steps, doRetire) { // retention depends on a steady clock
		g.steps = slices.DeleteFunc(g.steps, func(s string) bool { return s == doClock })
	}
	g.pace = []time.Duration{300 * time.Microsecond, 3 * time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond}[g.r.IntN(4)]
	h := &History{Seed: seed, Room: room, SQLite: seed%20 == 0, Users: 1, Callers: make([][]Step, 1+g.r.IntN(3))}
	if g.r.IntN(5) == 0 {
		h.Users += 1 + g.r.IntN(len(users)-1)
	}
	each := 1 + g.r.IntN(threadsEach)
	for user := range h.Users {
		for n := range each {
			g.threads = append(g.threads, user*threadsEach+n+1)
		}
	}
	if g.r.IntN(10) == 0 {
		h.Queue = 1 + g.r.IntN(2)
	}
	if g.r.IntN(10) == 0 {
		h.Slots = 1 + g.r.IntN(2)
	}
	if g.r.IntN(10) == 0 {
		h.Events = 10 + g.r.IntN(60)
	}
	for i := range h.Callers {
		for range 1 + g.r.IntN(6) {
			h.Callers[i] = append(h.Callers[i], g.step())
		}
	}
	if g.r.IntN(2) == 0 {
		for range 1 + g.r.IntN(3) {
			h.Faults = append(h.Faults, Fault{Commit: 1 + g.r.IntN(40), Trouble: troubles[g.r.IntN(len(troubles))]})
		}
		refusals := 0
		h.Faults = slices.DeleteFunc(h.Faults, func(f Fault) bool { // data that the database refuses is refused for ever
			if f.Trouble == Refused {
				refusals++
			}
			return f.Trouble == Refused && refusals > 1
		})
		slices.SortFunc(h.Faults, func(a, b Fault) int { return a.Commit - b.Commit })
		h.Faults = slices.CompactFunc(h.Faults, func(a, b Fault) bool { return a.Commit == b.Commit })
	}
	if g.r.IntN(4) == 0 {
		troubles := []Trouble{Away, Away, GivenUp, Slow, Silent}
		for range 1 + g.r.IntN(4) {
			h.Faults = append(h.Faults, Fault{Read: 1 + g.r.IntN(80), Trouble: troubles[g.r.IntN(len(troubles))]})
		}
	}
	if room != nil {
		g.weigh(h)
	}
	if h.Does(doSeal) && seed%4 == 0 {
		h.SQLite = true
	}
	if h.Does(doDelete, doClear, doWipe, doRetire) && seed%3 == 0 {
		h.inParts(1 + int(seed%7))
	}
	return h
}

// serversOf returns how many processes serve at the same time, mostly one.
func serversOf(seed uint64) int {
	return []int{1, 1, 1, 1, 1, 1, 2, 2, 2, 3}[rand.New(rand.NewPCG(seed, 0xc105)).IntN(10)]
}

// beside has so many processes serve the history at the same time. Some of them stop and are woken. Deletions in parts
// and files are of one process.
func (h *History) beside(servers int) {
	if servers < 2 || h.SQLite || h.Parts > 0 {
		return
	}
	h.Servers = servers
	r := rand.New(rand.NewPCG(h.Seed, 0x510b))
	times := []time.Duration{30 * time.Millisecond, time.Second, lease - time.Second, lease + 2*time.Second, 2 * lease, 3*lease + 2*time.Second}
	for _, steps := range h.Callers {
		for i := range steps {
			s := &steps[i]
			if s.Do == doLook && r.IntN(2) == 0 {
				s.Do, s.By = doStop, Duration(times[r.IntN(len(times))])
			} else if s.Do == doLook || s.Do == doRead {
				s.Do, s.Choice = doRead, r.IntN(8) // odd ones end with the log
			}
		}
	}
	for i := range h.Faults {
		switch f := &h.Faults[i]; {
		case f.Commit == 0 || f.Trouble == Refused:
		case r.IntN(3) == 0:
			f.Trouble = Stopped
		case r.IntN(8) == 0:
			f.Trouble = Stuck
		}
	}
}

// addScenes adds some of the scenes.
func (h *History) addScenes() {
	r := rand.New(rand.NewPCG(h.Seed, 0x5ce7e))
	if h.Slots == 0 && r.IntN(6) == 0 {
		h.Slots = 1 + r.IntN(2)
	}
	for i, scene := range scenes {
		if r.IntN(5) == 0 {
			scene(h, r, 1000*(i+1))
		}
	}
}

// addSleeps has workers sleep, or wait for events, in a quarter of the histories.
func (h *History) addSleeps() {
	r := rand.New(rand.NewPCG(h.Seed, 0x51ee9))
	if r.IntN(4) > 0 {
		return
	}
	for _, steps := range slices.Clone(h.Callers) {
		for i := range steps {
			if s := &steps[i]; s.Script != nil && r.IntN(2) == 0 {
				s.Script = sleepy(r, s.Script)
				h.addEvents(r, s)
			}
		}
	}
}

// addEvents has another caller send events to the run of a start whose script waits for some: early, late and doubled.
func (h *History) addEvents(r *rand.Rand, start *Step) {
	if start.Do != doStart || start.Script.count(func(op Op) bool { return op.Name == "await" }) == 0 {
		return
	}
	var steps []Step
	for i := range 1 + r.IntN(4) {
		s := Step{N: 20_000 + 10*start.N + i, Do: doEvent, Run: start.N, After: between(r, 2*time.Second), Times: r.IntN(3)}
		if r.IntN(4) == 0 {
			s.Key = s.N
		}
		steps = append(steps, s)
	}
	h.Callers = append(h.Callers, steps)
}

// sleepy returns a script with a sleep in it, or in an op of it that has a body.
func sleepy(r *rand.Rand, s Script) Script {
	at := r.IntN(len(s) + 1)
	if at < len(s) && s[at].Name != "think" && (len(s[at].Body) > 0 && r.IntN(2) == 0 || len(s[at].Name) == 1) { // or of a node
		s = slices.Clone(s)
		s[at].Body = sleepy(r, s[at].Body)
		return s
	}
	if len(s) > 0 && len(s[0].Name) == 1 {
		return s // all ops are of nodes
	}
	return slices.Insert(slices.Clone(s), at, [][]Op{{{Name: "sleep"}}, {{Name: "await"}}, {{Name: "await"}, {Name: "note"}, {Name: "await"}}}[r.IntN(3)]...)
}

// scenes are what several servers may get wrong in few histories, unless these are made for it. Each adds to a history. n numbers its steps.
var scenes = []func(h *History, r *rand.Rand, n int){
	rollingScene, keyScene, viewerScene, relayScene, queueScene, cancelScene, apartScene, lineScene,
}

// rollingScene restarts servers under two runs that last. Those that take a run over stop before that, and find that others have had it.
func rollingScene(h *History, r *rand.Rand, n int) {
	var steps []Step
	for thread := range threadsEach {
		steps = append(steps, Step{N: n + thread, Do: doStart, Thread: 1 + thread, Agent: alone, Script: Script{{Name: "long"}, {Name: "note"}}})
	}
	for i := range 2 + r.IntN(3) {
		steps = append(steps, Step{
			N: n + len(steps), Do: []string{doRestart, doRestart, doRestart, doCrash}[r.IntN(4)], Run: n + i%2*r.IntN(2),
			After: Duration(time.Second) + between(r, time.Second),
		})
	}
	h.Callers = append(h.Callers, steps)
	for i := range 2 {
		h.Faults = append(h.Faults, Fault{Take: 1 + 2*i + r.IntN(2), Trouble: Stopped})
	}
	if h.Slots == 0 && r.IntN(2) == 0 {
		h.Slots = 1
	}
}

// keyScene sends a request to several servers at once that names no thread.
func keyScene(h *History, r *rand.Rand, n int) {
	var steps []Step
	for range 1 + r.IntN(3) {
		steps = append(steps, Step{
			N: n, Do: doStart, Thread: 1, Agent: alone, Script: Script{{Name: "say"}}, Key: n, Times: 2 + r.IntN(2), Apart: true, After: between(r, time.Millisecond),
		})
		n++
	}
	h.Callers = append(h.Callers, steps)
}

// viewerScene has a viewer at each end of runs that follow each other, and snapshots of them while they last.
func viewerScene(h *History, r *rand.Rand, n int) {
	var steps []Step
	add := func(s Step) {
		s.N, s.Thread, s.After = n, 1, between(r, 30*time.Millisecond)
		steps, n = append(steps, s), n+1
	}
	for range 1 + r.IntN(3) {
		add(Step{Do: doStart, Agent: alone, Script: Script{{Name: "say"}, {Name: []string{"wait", "say", "long"}[r.IntN(3)]}, {Name: "say"}}})
		add(Step{Do: doRead, Choice: 1 + 2*r.IntN(4)})
		add(Step{Do: doSnapshot})
	}
	h.Callers = append(h.Callers, steps)
}

// relayScene has several servers execute runs of a thread in turn, and viewers who hold what these have in memory. Later one of the runs is
// deleted, and others come to view the thread.
func relayScene(h *History, r *rand.Rand, n int) {
	var steps []Step
	add := func(after Duration, s Step) {
		s.N, s.Thread, s.After = n+len(steps), 1, after
		steps = append(steps, s)
	}
	for i := range 4 + r.IntN(4) {
		add(Duration(20*time.Millisecond)+between(r, 200*time.Millisecond), Step{Do: doStart, Agent: alone, Script: Script{{Name: "say"}}})
		if i == 0 {
			add(0, Step{Do: doRead, Choice: stays})
			add(0, Step{Do: doRead, Choice: stays})
		}
	}
	for range 3 {
		add(between(r, 50*time.Millisecond), Step{Do: doRead, Choice: stays + r.IntN(7)})
	}
	add(between(r, 100*time.Millisecond), Step{Do: h.deletes(), Run: n})
	for range 2 {
		add(Duration(soon)+between(r, time.Second), Step{Do: doRead, Choice: stays * r.IntN(2)})
	}
	h.Callers = append(h.Callers, steps)
}

// queueScene cancels or deletes runs that are queued behind one that lasts, and whose clients wait.
func queueScene(h *History, r *rand.Rand, n int) {
	steps := []Step{{N: n, Do: doStart, Thread: 1, Agent: alone, Script: Script{{Name: "long"}, {Name: "long"}}}}
	for i := range 1 + r.IntN(2) {
		steps = append(steps, Step{
			N: n + 2 + 2*i, Do: doStart, Thread: 1, Agent: alone, Script: Script{{Name: "say"}}, After: between(r, 50*time.Millisecond),
		})
	}
	for i := range len(steps) - 1 {
		steps = append(steps, Step{
			N: n + 101 + i, Do: []string{doCancel, h.deletes()}[r.IntN(2)], Run: n + 2 + 2*i, After: between(r, 300*time.Millisecond),
		})
	}
	h.Callers = append(h.Callers, steps)
}

// cancelScene cancels a run that is about to ask a question, while its server stands still and the one that was asked to cancel it stops.
func cancelScene(h *History, r *rand.Rand, n int) {
	h.Callers = append(h.Callers, []Step{
		{N: n, Do: doStart, Thread: 2, Agent: alone, Script: Script{{Name: "half"}, {Name: "ask"}}},
		{N: n + 1, Do: doStop, Run: n, By: Duration(time.Second) + between(r, 3*time.Second), After: Duration(200*time.Millisecond) + between(r, 350*time.Millisecond)},
		{N: n + 2, Do: doCancel, Run: n, After: between(r, 50*time.Millisecond)},
	}, []Step{
		{N: n + 3, Do: doRestart, After: Duration(600*time.Millisecond) + between(r, 400*time.Millisecond)},
	})
}

// apartScene has runs follow each other in two threads whose agents are at different servers, which stop or restart meanwhile.
func apartScene(h *History, r *rand.Rand, n int) {
	if !h.allAble() { // the only server of an agent may lack the label
		return
	}
	for range 2 {
		var steps []Step
		add := func(s Step) {
			s.N, s.After = n, between(r, 200*time.Millisecond)
			steps, n = append(steps, s), n+1
		}
		for range 2 + r.IntN(4) {
			add(Step{
				Do: doStart, Thread: 1 + r.IntN(2), Agent: []string{east, west}[r.IntN(2)], Script: Script{{Name: []string{"say", "wait", "long", "ask"}[r.IntN(4)]}},
				Multitask: []string{"", "", "interrupt", h.rollsBack()}[r.IntN(4)],
			})
			switch r.IntN(6) {
			case 0:
				add(Step{Do: doCancel, Run: n - 1 - r.IntN(len(steps))})
			case 1:
				add(Step{Do: doStop, Run: n - 1, By: between(r, 2*lease)})
			case 2:
				add(Step{Do: doRestart})
			}
		}
		h.Callers = append(h.Callers, steps)
	}
}

// lineScene has runs of all threads wait for slots, while a server stops or dies that has taken rows of the queue.
func lineScene(h *History, r *rand.Rand, n int) {
	if h.PerProject+h.PerUser == 0 {
		h.Slots = 1
	}
	for thread := range threadsEach * h.Users {
		var steps []Step
		for range 2 + r.IntN(2) {
			steps = append(steps, Step{
				N: n, Do: doStart, Thread: 1 + thread, Agent: alone, Script: Script{{Name: []string{"say", "wait", "note"}[r.IntN(3)]}}, After: between(r, 20*time.Millisecond),
			})
			n++
		}
		h.Callers = append(h.Callers, steps)
	}
	for i := range r.IntN(3) {
		h.Faults = append(h.Faults, Fault{Row: 1 + 3*i + r.IntN(3), Trouble: []Trouble{Stopped, Stopped, KillAfter}[r.IntN(3)]})
	}
}

// deletes returns the action that deletes a run, unless events are small.
func (h *History) deletes() string {
	if h.smallEvents() {
		return doCancel
	}
	return doDelete
}

func (h *History) rollsBack() string {
	if h.smallEvents() {
		return "interrupt"
	}
	return "rollback"
}

// smallEvents reports whether the limit of an event may be too small for a snapshot of a thread: see weigh.
func (h *History) smallEvents() bool { return h.Room != nil && h.Room.Event > 0 }

// between returns a random time below d.
func between(r *rand.Rand, d time.Duration) Duration { return Duration(r.Int64N(int64(d))) }

// inParts makes deletions go in small parts with at most a process's death in between. No other step sees the remaining
// rows.
func (h *History) inParts(rows int) {
	h.Parts = rows
	h.Callers = h.Callers[:1]
	h.Faults = slices.DeleteFunc(h.Faults, func(f Fault) bool { return f.Trouble != KillBefore && f.Trouble != KillAfter })
	for i := range h.Faults {
		h.Faults[i].Commit *= 1 + rows%3 // deletions come late
	}
}

// focuses are the subjects of some histories.
var focuses = []struct {
	ops, steps []string
	troubles   []Trouble
}{
	{ // reused names, with tool calls and dying processes
		[]string{"note", "note", "gate", "do", "go", "sub", "say", "open"},
		[]string{doStart, doStart, doStart, doClear, doClear, doDelete, doCrash, doAnswer},
		[]Trouble{KillBefore, KillAfter, Lost},
	},
	{ // retried steps, with failing commits and reads
		[]string{"fail", "stall", "wait", "do", "note", "say", "panic", "next"},
		[]string{doStart, doStart, doAppend, doAppend, doRestart, doCancel},
		[]Trouble{Away, Lost, Slow, Silent, GivenUp, Conflict, Full, Locked},
	},
	{ // announced calls, with dying processes
		[]string{"think", "think", "sub", "do", "try", "ask", "next", "fail"},
		[]string{doStart, doStart, doAppend, doAnswer, doAnswer, doReply, doCancel, doCrash},
		[]Trouble{KillBefore, KillAfter, Lost, Away},
	},
	{ // retention, with readers, restarts and dying processes
		[]string{"say", "note", "do", "ask", "state", "next", "front", "fail", "sub"},
		[]string{doStart, doStart, doStart, doAppend, doAnswer, doRetire, doRetire, doRetire, doWipe, doSeal, doRead, doRead, doCrash, doRestart, doDelete},
		[]Trouble{KillBefore, KillAfter, Lost, Away, Slow, Silent, Conflict, Locked},
	},
	{ // answered and queued runs, with a moving clock
		[]string{"ask", "late", "front", "gate", "try", "say"},
		[]string{doStart, doStart, doStart, doClock, doClock, doAnswer, doAnswer, doReply, doCrash},
		[]Trouble{KillBefore, KillAfter, Away, Slow, Silent},
	},
}

// some returns n elements of list in random order.
func (g *generator) some(list []string, n int) []string {
	list = slices.Clone(list)
	g.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(n, len(list))]
}

func (g *generator) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *generator) step() Step {
	g.n++
	s := Step{N: g.n, After: Duration(g.r.Int64N(int64(g.pace))), Do: g.pick(g.steps...)}
	if g.r.IntN(8) == 0 {
		s.After *= 50
	}
	if len(g.runs) == 0 {
		s.Do = doStart
	}
	s.Thread = g.threads[g.r.IntN(len(g.threads))]
	switch s.Do {
	case doStart:
		g.start(&s)
	case doAppend:
		s.Run, s.Script = g.run(), g.script(1, 2)
		if g.r.IntN(6) == 0 {
			s.Key, s.Times = g.key(s.N), 1+g.r.IntN(3)
		}
	case doCancel, doDelete:
		s.Run = g.run()
	case doAnswer, doReply:
		s.Run, s.Choice = g.run(), g.r.IntN(64)
		for _, start := range g.runs {
			if start.N == s.Run {
				s.Thread = start.Thread
			}
		}
		if s.Do == doReply && g.r.IntN(2) == 0 { // may give the run another name
			s.Choice |= 1
			named := s
			g.runs = append(g.runs, &named)
		}
	case doRead:
		s.Choice = g.r.IntN(8)
	case doRetire:
		s.Choice, s.By = g.r.IntN(2), Duration(g.r.Int64N(int64(4*g.pace))+int64(time.Millisecond))
	case doClock:
		s.By = Duration(g.r.Int64N(int64(4*time.Minute))) - Duration(2*time.Minute)
	}
	if s.Run != 0 && g.r.IntN(20) == 0 {
		s.Foreign = true
	}
	return s
}

func (g *generator) start(s *Step) {
	s.Agent = g.pick(alone, alone, alone, alone, flow)
	s.Script = g.script(0, 4)
	if s.Agent == flow {
		s.Script = Script{{"a", g.script(1, 3)}, {"b", g.script(1, 3)}, {"c", g.script(1, 3)}, {mapNode, g.script(1, 2)}}
	}
	s.Multitask = g.pick("", "", "", "reject", "interrupt", "rollback")
	s.State = g.r.IntN(6) == 0
	s.Rewind = g.r.IntN(10) == 0
	if g.r.IntN(5) == 0 {
		s.Key, s.Times = g.key(s.N), 1+g.r.IntN(4)
	}
	if g.r.IntN(6) == 0 {
		s.Name = g.nameAgain(s.Thread)
	}
	g.runs = append(g.runs, s)
	run := *s
	g.runs[len(g.runs)-1] = &run
}

// key returns an Idempotency-Key, either new or used before.
func (g *generator) key(n int) int {
	if len(g.keys) > 0 && g.r.IntN(4) == 0 {
		return g.keys[g.r.IntN(len(g.keys))]
	}
	g.keys = append(g.keys, n)
	return n
}

// nameAgain returns the number of another run of the user, 0 if there is none.
func (g *generator) nameAgain(thread int) int {
	for range 3 {
		if len(g.runs) == 0 {
			break
		}
		if of := g.runs[g.r.IntN(len(g.runs))]; of.Do == doStart && (of.Thread-1)/threadsEach == (thread-1)/threadsEach {
			return cmp.Or(of.Name, of.N)
		}
	}
	return 0
}

func (g *generator) run() int {
	if g.r.IntN(2) == 0 { // prefer the latest runs
		return g.runs[len(g.runs)-1].N
	}
	return g.runs[g.r.IntN(len(g.runs))].N
}

// script returns a script of at most n ops with bodies of that depth.
func (g *generator) script(depth, n int) Script {
	s := Script{}
	for range 1 + g.r.IntN(n) {
		op := Op{Name: g.pick(g.ops...)}
		switch op.Name {
		case "do", "sub", "try":
			if depth > 1 {
				continue
			}
			op.Body = g.script(depth+1, 2)
			if op.Name == "do" { // a record is of ended ops
				op.Body = slices.DeleteFunc(op.Body, func(op Op) bool { return op.Name == "try" })
			}
		case "go":
			if depth > 1 {
				continue
			}
			op.Body = g.parts()
		case "think":
			for _, tool := range g.some([]string{"note", "note", "idem", "gate", "front", "slow"}, 1+g.r.IntN(3)) {
				op.Body = append(op.Body, Op{Name: tool})
			}
		}
		s = append(s, op)
	}
	return s
}

// parts returns ops that can run in parallel: each has its own name, and none writes a text.
func (g *generator) parts() []Op {
	var all []Op
	for _, name := range g.some([]string{"note", "idem", "gate", "front", "ask", "wait", "stall", "state"}, 2+g.r.IntN(2)) {
		all = append(all, Op{Name: name})
	}
	return all
}
