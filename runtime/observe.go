package runtime

import (
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/work"
)

type (
	// Measures are told of sizes and times as they come about: see [work.Measures].
	Measures = work.Measures
	// Tracer follows runs from the request to the calls of models and tools: see [work.Tracer].
	Tracer = work.Tracer
	// Op is an operation that begins.
	Op = work.Op
	// OpKind says what an operation is.
	OpKind = work.OpKind
	// End is how an operation has ended.
	End = work.End
	// ModelEnd is how a call of a model has ended.
	ModelEnd = work.ModelEnd
)

// The operations that a Tracer is told of.
const (
	OpStart = work.OpStart
	OpRun   = work.OpRun
	OpAgent = work.OpAgent
	OpTool  = work.OpTool
	OpModel = work.OpModel
)

// Stats is what a Runtime is doing, and what it has counted since it began.
type Stats struct {
	work.Stats
	Commits commit.Stats // what waits for a commit
}

// Stats returns what the runtime is doing.
func (rt *Runtime) Stats() Stats { return Stats{rt.work.Stats(), rt.commits.Stats()} }
