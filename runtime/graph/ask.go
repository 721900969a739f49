package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/expression"
)

func (n *Node) compileAsk(names Names) (err error) {
	if n.Ask.Schema != nil {
		if _, err := CompileSchema(n.Ask.Schema); err != nil {
			return err
		}
	}
	n.otherwise, err = names.compile(n.Ask.Output, false)
	return err
}

// Answered returns the output of a node that asks: an answer that a user, if known, has given. It is nil if the node is skipped.
func (n *Node) Answered(ctx context.Context, env func() map[string]any, a plugins.Answer, user string) (json.RawMessage, error) {
	switch {
	case a.Cancelled && n.Ask.Skip:
		return nil, nil
	case a.Cancelled && n.otherwise == nil:
		return nil, &plugins.Error{Code: "unanswered", Message: fmt.Sprintf("The question of node %s was declined, or has expired", n.ID)}
	case a.Cancelled:
		v, err := n.otherwise.Run(ctx, env())
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			a.Payload, err = expression.Encode(v)
		}
		if err != nil {
			return nil, &plugins.Error{Code: "bad_input", Message: fmt.Sprintf("Node %s: the output failed: %s", n.ID, firstLine(err))}
		}
		user = ""
	}
	a.Payload = json.RawMessage(cmp.Or(string(a.Payload), "null"))
	text := string(a.Payload)
	_ = json.Unmarshal(a.Payload, &text)
	raw := data.MustJSON(&agui.WorkerOutput{Status: agui.StatusSuccess, Answer: text, Result: a.Payload})
	return slices.Concat(raw[:len(raw)-1], []byte(`,"by":`), data.MustJSON(user), []byte("}")), nil
}
