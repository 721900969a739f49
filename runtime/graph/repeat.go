package graph

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Rounds returns how many rounds the node may have, 0 if it is not repeated.
func (n *Node) Rounds() int {
	if n.Repeat.Until != "" && n.Repeat.Max == 0 {
		return plugins.DefaultRounds
	}
	return n.Repeat.Max
}

// Over reports whether the node is over behind a round, whose output env has.
func (n *Node) Over(ctx context.Context, env func() map[string]any) (bool, error) {
	yes, err := n.until.True(ctx, env())
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, &plugins.Error{Code: "bad_condition", Message: fmt.Sprintf("Node %s: repeat: the condition failed: %s", n.ID, firstLine(err))}
	}
	return yes, nil
}

// Cut ends the node behind its last round, whose output was not enough: it returns the output as a partial success, or fails.
func (n *Node) Cut(output json.RawMessage) (json.RawMessage, error) {
	if n.Repeat.Fail {
		return nil, &plugins.Error{Code: "repeat_max", Message: fmt.Sprintf("Node %s: %d rounds were not enough", n.ID, n.Rounds())}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(output, &members) != nil {
		return output, nil
	}
	members["status"] = data.MustJSON(agui.StatusPartialSuccess)
	return data.MustJSON(members), nil
}
