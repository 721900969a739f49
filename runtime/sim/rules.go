package sim

// Rule names something that must hold whatever happens.
type Rule string

// The rules. Each finding names the one that is broken.
const (
	RuleIDs      Rule = "log.ids"         // a log's ids are 1, 2, 3 … without a gap or a repeat
	RuleWatch    Rule = "log.watchers"    // the client of a run is shown its span from RUN_STARTED to the terminal event
	RuleReader   Rule = "log.readers"     // every reader sees the same event under an id, live, resumed and after a restart
	RuleSpan     Rule = "log.span"        // a span is RUN_STARTED … one terminal event with all closed, of one run, and legal between
	RuleTurn     Rule = "log.turn"        // a run that waits goes on, or ends, before another of its thread begins
	RuleCall     Rule = "log.calls"       // a tool call has exactly one result
	RuleRows     Rule = "rows.messages"   // the message rows are what the log folds to
	RuleSaid     Rule = "rows.once"       // what is said again is shown once
	RuleState    Rule = "rows.state"      // so is the thread's state
	RuleStatus   Rule = "rows.status"     // a run's status is what its last span says
	RuleActive   Rule = "run.active"      // a thread never has two runs that are RUNNING or WAITING
	RuleStuck    Rule = "run.stuck"       // when all is quiet a run is over, WAITING, or QUEUED behind a WAITING one
	RuleOutage   Rule = "run.outage"      // no run fails because the database was away or slow
	RulePrompt   Rule = "prompt.valid"    // in a prompt each call is followed by its result, each result follows its call
	RuleReach    Rule = "prompt.whole"    // what a run was given to read has reached its worker when it is COMPLETED
	RuleSteps    Rule = "rows.steps"      // steps are numbered 1, 2, 3 …, and over when their run is, as are nodes
	RuleInput    Rule = "prompt.same"     // a step that is called again is asked the same
	RuleOnce     Rule = "tool.once"       // what is not idempotent is called once at most
	RuleBare     Rule = "tool.bare"       // a tool node without input is called with {}
	RuleRecord   Rule = "record.own"      // Do, CallTool and CallAgent return the record of their own place
	RuleAnswer   Rule = "answer.own"      // Ask returns the answer to its own question
	RuleApproval Rule = "answer.approval" // a call is made if it was approved, with the arguments that were
	RuleAck      Rule = "command.done"    // what was acknowledged has happened, for good
	RuleRefused  Rule = "command.refused" // what was refused has not
	RuleWhole    Rule = "command.whole"   // what got no answer has happened wholly or not at all
	RuleForeign  Rule = "command.foreign" // nobody gets at another user's run
	RuleKey      Rule = "command.key"     // requests of one Idempotency-Key are one request
	RuleKept     Rule = "retention.kept"  // what is younger than what is removed stays, with all its events
	RuleGone     Rule = "retention.gone"  // what was removed is gone
	RuleLimit    Rule = "run.events"      // a run emits no more events than it may, and what closes what is open
	RuleRoom     Rule = "run.room"        // when none is at work, nothing counts of what runs may have
	RuleRounds   Rule = "run.rounds"      // a worker is called once, and again for a process that ended, an answer or a message
	RuleFull     Rule = "run.full"        // a run fails for what it says only where it is too much
	RuleBound    Rule = "command.bound"   // a request is refused as too much only if it is, and then always
	RuleStart    Rule = "process.start"   // a server starts, and stops
	RuleFence    Rule = "process.fenced"  // a server that was replaced notices
	RuleHang     Rule = "process.hang"    // everything comes to an end
	RuleModel    Rule = "model"           // the answer is the one the model gives
)
