// Package sim guards the runtime: it lets random histories happen to the real engine and checks that nothing came of them
// that must not. It is for tests alone; no program links it.
//
// # A history
//
// A [History] is what callers ask, each caller one thing after the other (start, append, cancel, answer, delete,
// read on), what is removed and sealed because it is old, and what goes wrong meanwhile: a commit that fails, is slow or loses its answer, a read that fails, a process that
// is killed, stopped, or replaced while it lives, a clock that moves. What workers do stands in the messages that
// callers send, as a script of words (see [Op]). [Generate] makes a history of a seed, [Play] lets it happen and
// returns what it has found, with the story to read. Time is that of a synctest bubble: pauses cost nothing and
// come to their ends in the order of their lengths, which the seed gives.
//
// Two things check what comes of it. Rules (rules.go) hold whatever happens; each is named, and a finding says which
// is broken. The [Model] is a sequential specification of a thread: [PlayAlone] has one caller wait after each
// request until all is quiet, and then answer, runs, messages, state and spans are what the model says. Neither
// shares code with the engine: they are written from the wire's rules.
//
// A quarter of the histories weigh bytes: they happen in a [Room] so small that a message of some KiB is a user's share, or more than
// an event holds. Those that are all about it begin runs again while workers of their last turn have not returned. What counts of runs
// must be nothing whenever none is at work, in every history.
//
// # Running it
//
//	go test ./runtime/sim                              a thousand histories of each kind (with -race fifty), and those in testdata
//	go test ./runtime/sim -histories 20000 -seed 7000  others
//	go test ./runtime/sim -run Postgres -postgres 1000 on PostgreSQL, in real time
//	make soak                                          a million
//
// A failure names the seed, shrinks the history to the smallest that still breaks the rule, and prints it with its
// story: what was asked and answered at which time of the bubble, what broke (!!), and then each thread's log and
// rows. The same seed fails again:
//
//	go test ./runtime/sim -run TestHistories -seed 4711 -histories 1
//	go test ./runtime/sim -run TestHistories -seed 4711 -histories 1 -shrink log.span
//
// What is printed as "the smallest history" can be kept in a file, changed and played:
//
//	go test ./runtime/sim -run 'TestHistory$' -history kept.json -v
//	go test ./runtime/sim -run 'TestHistory$' -history kept.json -sweep tool.once   a trouble at each commit in turn
//
// The seed gives the engine's ids too, and its pauses follow the bubble's clock. What is left to chance is Go's: in which
// order goroutines run that become ready at one moment, and which of several ready cases a select takes. About one seed in
// fifty does not do the very same again; a finding that does not come back comes back at the second or third try. A
// change of the engine moves commits and with them everything, so a history that is worth keeping goes into testdata,
// not its seed.
//
// testdata holds a history for each defect that was found and mended.
//
// # Its parts
//
// history.go and script.go say what happens, generate.go makes it up, room.go how many bytes there are for what. world.go, callers.go and
// readers.go let it happen, worker.go is the agents and tools, ledger.go what they have seen, and rounds.go how often they may be called.
// Most histories are played on package memory, one in twenty on a SQLite file (database.go), and all of them on a Store with faults in
// front of that (store.go), which is all that this package knows of the Store; all else goes through the runtime's facade. audit.go reads
// what is left of a history, check.go, retention.go, fold.go, room.go and replies.go hold it against the rules. model.go and alone.go are
// the model and its histories, shrink.go makes failures small.
package sim
