package runtime

import (
	"context"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/prompts"
)

// Calls of models, as packages data and prompts define them.
//
//nolint:revive // each is documented there
type (
	ModelCall    = data.Prompt
	SentPrompt   = prompts.Sent
	HiddenPrompt = prompts.HiddenPrompt
	Answered     = prompts.Answered
)

// ErrModelCallNotFound is returned for a model call that the run has not made.
var ErrModelCallNotFound = refuse(KindNotFound, "model_call_not_found", "The run has made no such call of a model")

// ModelCalls lists a run's calls of models with an id behind after, the oldest first.
func (rs *Runs) ModelCalls(ctx context.Context, c Caller, name, after string, limit int) (Page[ModelCall], error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return Page[ModelCall]{}, err
	}
	calls, err := rs.store.Prompts(ctx, c.project, run.Key, after, limit)
	for i := range calls.Rows {
		interrupted(&run, &calls.Rows[i])
	}
	return calls, unavailable(err)
}

// interrupted corrects the status of a call whose run has ended without its end.
func interrupted(run *Run, call *ModelCall) {
	if call.Status == agui.ModelStarted && run.Status != Running {
		call.Status = agui.ModelInterrupted
	}
}

// ModelCall returns a call of a model by its id, with what the model was sent and its answer. Each is nil if it is not kept. On a server with
// accounts only operators see its instructions, tools and parameters.
func (rs *Runs) ModelCall(ctx context.Context, c Caller, name, id string) (ModelCall, *SentPrompt, *Answered, error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return ModelCall{}, nil, nil, err
	}
	call, err := rs.store.Prompt(ctx, c.project, run.Key, id)
	if err != nil {
		return ModelCall{}, nil, nil, unavailable(data.Gone(err, ErrModelCallNotFound))
	}
	interrupted(&run, &call)
	sent, answer, err := prompts.Read(ctx, rs.store, c.project, run.ThreadKey, &call)
	if sent != nil && rs.accounts && c.rank() < RoleOperator {
		sent.Hide()
	}
	return call, sent, answer, unavailable(err)
}
