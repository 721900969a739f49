package graph

import (
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// Retries reports whether the node is executed again after an execution that has failed. Those of a round are counted from 1.
func (n *Node) Retries(e *agui.OutputError, execution int) bool {
	again := e.Retryable
	if n.Retry.On != nil {
		again = slices.Contains(n.Retry.On, e.Code)
	}
	return again && execution <= n.Retry.Retries
}

// ofRun are the codes of failures that are not the node's own: the run could not go on behind them either.
var ofRun = []string{"budget_exceeded", "crash_loop", "replay_mismatch", "too_many_records"}

// Catches reports whether the run goes on after the node has failed with an error.
func (n *Node) Catches(e *agui.OutputError) bool {
	return n.ContinueOnError && !slices.Contains(ofRun, e.Code)
}
