// Package sim tests the runtime with random histories: it plays them on the real engine and checks the results against
// rules. Only tests use it.
//
// # A history
//
// A [History] is a list of requests by callers (start, append, cancel, answer, delete, read on), of retention and
// sealing, and of faults: a commit that fails, is slow or loses its answer, a read that fails, a process that is
// killed or stopped, a clock that moves. Each caller makes one request after the other. The
// callers' messages contain scripts for the workers (see [Op]). [Generate] makes a history from a seed. [Play] plays it
// and returns its findings and a readable story. It runs in a synctest bubble, so pauses cost nothing and end in the
// order of their lengths, which depend on the seed.
//
// Two checks follow. Rules (rules.go) hold for every history; a finding names the broken one. The [Model] is a
// sequential specification of a thread: in [PlayAlone] one caller waits after each request until the engine is idle,
// and then the answer, runs, messages, state and spans must be the model's. Neither shares code with the engine: both
// are written from the protocol. After a crash the caller waits for a run that is suspected of it.
//
// In four of ten histories two or three processes serve the database at the same time, like servers on
// one PostgreSQL. Each request and each reader goes to any of them. Processes are killed (of every second one the others
// only see that its row stands still), stopped and woken, also in the middle of a commit, and drained. Package memory then
// locks the threads, names and keys of a commit as storage does, defers what another one has locked, and fences as storage's
// watch does. Hints between the processes are lost, late or doubled, in a quarter of these histories all are lost; in
// another quarter one process has no label to execute runs. The Model is the same: several servers cannot be told from one.
// Some of these histories have scenes (see generate.go): servers that restart one after the other while others, about to take a run
// over, stop until it was released again; one request at several servers at once; viewers at the ends of runs, of runs that several
// servers execute in turn, and of queued runs that are cancelled or deleted; a run that is cancelled as it begins to wait; and servers
// that stop or die when they have taken rows of the queue and not claimed their runs yet.
//
// A quarter of the histories test limits on bytes. They run in a [Room] in which a message of some KiB fills a user's
// share or an event. In every history, reservations must be zero whenever no run executes. A fifth of the histories limit the
// RUNNING runs of each user or project.
//
// # Running it
//
//	go test ./runtime/sim                              five hundred histories of each kind (with -short fifty), and those in testdata
//	go test ./runtime/sim -histories 20000 -seed 7000  others
//	go test ./runtime/sim -histories 20000 -servers 3  with three processes at the same time, except files and deletions in parts
//	go test ./runtime/sim -run Postgres -postgres 1000 on PostgreSQL, in real time
//	make soak                                          a million
//
// A failure prints the seed and shrinks the history to the smallest one that still breaks the rule. Its story has the
// requests and answers with the bubble's time, the broken rules (!!), and each thread's log and rows. The same seed
// fails again:
//
//	go test ./runtime/sim -run TestHistories -seed 4711 -histories 1
//	go test ./runtime/sim -run TestHistories -seed 4711 -histories 1 -shrink log.span
//
// The printed "smallest history" can be stored in a file, edited and played:
//
//	go test ./runtime/sim -run 'TestHistory$' -history kept.json -v
//	go test ./runtime/sim -run 'TestHistory$' -history kept.json -sweep tool.once   a trouble at each commit in turn
//
// The seed also determines the engine's ids and pauses. Only Go's scheduling is random: the order of goroutines that
// become ready at once, and the choice of select. About one seed in eight plays differently the second time; try a
// finding that does not reappear again. A change of the engine moves all commits, so store a history in testdata, not
// its seed.
//
// testdata has a history for each defect that was found and fixed.
//
// # Its parts
//
// history.go and script.go define a history, generate.go generates it, and room.go defines its limits. Each part of a
// history in progress knows those before it: world.go has the time, the faults and the story, servers.go the processes,
// callers.go and readers.go their clients, and audit.go the checker. worker.go has the agents and tools, ledger.go
// records their observations, and rounds.go checks how often they are called. Most histories run on package memory, one
// in twenty on a SQLite file (database.go), and all on a Store with faults in front of it (store.go), the only file that
// knows the Store. Everything else uses the runtime's facade. queue.go checks the queue after every
// commit. audit.go reads the final state, and check.go, retention.go, fold.go, room.go and replies.go check it. model.go and alone.go are the model and its histories, and
// shrink.go shrinks failures.
package sim
