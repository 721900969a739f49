package sim

// Rule is an invariant of every history.
type Rule string

// Rules. Each finding names the broken one.
const (
	RuleIDs      Rule = "log.ids"         // a log's ids are 1, 2, 3 … without a gap or a repeat
	RuleWatch    Rule = "log.watchers"    // a run's client gets its span from RUN_STARTED to the terminal event
	RuleReader   Rule = "log.readers"     // every reader sees the same event under an id, live, resumed and after a restart
	RuleSpan     Rule = "log.span"        // a span is RUN_STARTED … one terminal event with all closed, of one run, and legal between
	RuleTurn     Rule = "log.turn"        // a waiting run continues or ends before the next run of its thread begins
	RuleCall     Rule = "log.calls"       // a tool call has exactly one result
	RuleRows     Rule = "rows.messages"   // the message rows are the folded log
	RuleSaid     Rule = "rows.once"       // repeated output appears once
	RuleState    Rule = "rows.state"      // the thread's state is the folded log's
	RuleStatus   Rule = "rows.status"     // a run's status agrees with its last span
	RuleActive   Rule = "run.active"      // a thread never has two runs that are RUNNING or WAITING
	RuleStuck    Rule = "run.stuck"       // at rest, a run has ended, is WAITING, or is QUEUED behind a WAITING one
	RuleOutage   Rule = "run.outage"      // no run fails because the database was unavailable or slow
	RulePrompt   Rule = "prompt.valid"    // in a prompt each call is followed by its result, each result follows its call
	RuleReach    Rule = "prompt.whole"    // a COMPLETED run's worker has received all its messages
	RuleSteps    Rule = "rows.steps"      // steps are numbered 1, 2, 3 …, and over when their run is, as are nodes
	RuleItems    Rule = "rows.items"      // an item of a map completes once, and a completed map counts all
	RuleInput    Rule = "prompt.same"     // a step that is called again gets the same input
	RuleOnce     Rule = "tool.once"       // a tool that is not idempotent is called once at most
	RuleBare     Rule = "tool.bare"       // a tool node without input is called with {}
	RuleRecord   Rule = "record.own"      // Do, CallTool and CallAgent return the record of their own place
	RuleAnswer   Rule = "answer.own"      // Ask returns the answer to its own question
	RuleApproval Rule = "answer.approval" // a call runs only if it was approved, with the approved arguments
	RuleAck      Rule = "command.done"    // an acknowledged request has taken effect, for good
	RuleRefused  Rule = "command.refused" // a refused request has no effect
	RuleWhole    Rule = "command.whole"   // an unanswered request has taken effect wholly or not at all
	RuleForeign  Rule = "command.foreign" // a user cannot reach another user's run
	RuleKey      Rule = "command.key"     // requests of one Idempotency-Key are one request
	RuleKept     Rule = "retention.kept"  // newer runs keep all their events when older ones are removed
	RuleGone     Rule = "retention.gone"  // removed data is gone
	RuleLimit    Rule = "run.events"      // a run emits no more events than its limit, plus those that close its span
	RuleRoom     Rule = "run.room"        // at rest, all reservations are released
	RuleRounds   Rule = "run.rounds"      // a worker is called once, plus once for an ended process, an answer or a message
	RuleFull     Rule = "run.full"        // a run fails for the size of its output only beyond a limit
	RuleBound    Rule = "command.bound"   // a request is refused for its size exactly if it exceeds a limit
	RuleStart    Rule = "process.start"   // a server starts, and stops
	RuleFence    Rule = "process.fenced"  // a fenced server notices, and none is fenced that shows life
	RuleOwner    Rule = "run.owner"       // nobody changes or executes a run that a living server executes, which executes no more than it may
	RuleOrphan   Rule = "run.orphan"      // a run goes on when its server has ended
	RuleEnd      Rule = "log.end"         // a reader's end was an end of the log, with no run queued or running
	RuleSnapshot Rule = "log.snapshot"    // a snapshot comes soon, and is the log folded up to its event
	RuleAlike    Rule = "log.alike"       // at rest, all servers show the same
	RulePlace    Rule = "queue.place"     // after every commit, a thread's row in the queue is what its runs need
	RuleFirst    Rule = "queue.first"     // a run that begins is the first of its thread
	RuleCaps     Rule = "queue.limits"    // after every commit, no project and no user has more RUNNING runs than it may have on all servers
	RuleTaken    Rule = "queue.taken"     // beside others, a server claims only rows that it has taken, and soon, or gives them back
	RuleWoken    Rule = "run.woken"       // a run that is parked goes on once, in its span, and not before its time
	RuleEvent    Rule = "run.event"       // a run receives each event once, and every one that has come before a wait ends without
	RuleHang     Rule = "process.hang"    // everything ends
	RuleModel    Rule = "model"           // the answer is the model's
)
