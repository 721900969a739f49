package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// AppendRequest is a user's message for a run.
type AppendRequest struct {
	Content        string
	ContextItemIDs []string
	Idempotency    *Idempotency
}

// maxContent is how long an appended message may be.
const maxContent = 1 << 20

// Append adds a message to a run. A run that is queued or running takes it at its next safe boundary, a
// waiting one with its answer, and one that is over starts again for it. It fails for a cancelled run.
func (rt *Runtime) Append(ctx context.Context, c Caller, name string, req AppendRequest) (Message, error) {
	if err := rt.admits(); err != nil {
		return Message{}, err
	}
	run, err := rt.owned(ctx, c, name)
	if err != nil {
		return Message{}, err
	}
	if strings.TrimSpace(req.Content) == "" {
		return Message{}, ErrEmptyContent
	}
	if len(req.Content) > maxContent {
		return Message{}, refuse(KindTooLarge, "content_too_large", "A message may hold %d bytes", maxContent)
	}
	var msg Message
	err = rt.com.do(func(ctx context.Context, tx Tx, out *outcome) error {
		var err error
		msg, err = rt.appendTx(ctx, tx, run.Key, req, out)
		return err
	})
	return msg, unavailable(err)
}

func (rt *Runtime) appendTx(ctx context.Context, tx Tx, runKey int64, req AppendRequest, out *outcome) (Message, error) {
	if old, done, err := appended(ctx, tx, req.Idempotency); done || err != nil {
		return old, err
	}
	run, err := tx.Run(ctx, runKey)
	if err != nil {
		return Message{}, gone(err)
	}
	th, err := tx.LockThread(run.ThreadKey)
	if err != nil {
		return Message{}, err
	}
	if run.Status == Cancelled {
		return Message{}, refuse(KindInvalid, "invalid_state", "Run cannot accept messages. Current status: %s", run.Status)
	}
	msg := Message{
		ThreadKey: th.Key, RunKey: run.Key, State: MessageQueued, ContextItemIDs: req.ContextItemIDs, CreatedAt: tx.Now(),
		Message: agui.Message{ID: newID(), Role: agui.RoleUser, Content: req.Content},
	}
	if len(req.ContextItemIDs) > 0 { // the worker finds them on the message
		msg.Metadata = mustJSON(map[string]any{"contextItemIds": req.ContextItemIDs})
	}
	rows := []Row{&msg}
	out.thread = th.Key
	over := run.Status == Completed || run.Status == Failed
	if over {
		if rt.queue.depth() >= rt.cfg.QueueDepth {
			return Message{}, errQueueFull
		}
		restart(&run, tx.Now())
		rows = append(rows, &run)
	}
	if key := req.Idempotency; key != nil {
		rows = append(rows, &IdempotencyKey{
			Scope: key.Scope, BodyHash: key.BodyHash, RunKey: run.Key, Answer: mustJSON(msg.ID), CreatedAt: tx.Now(),
		})
	}
	if err := tx.Put(rows...); err != nil {
		return Message{}, err
	}
	if over {
		return msg, rt.afterRun(ctx, tx, th.Key, out, nil)
	}
	if run.Status == Running {
		out.then = func() {
			if l := rt.liveRun(runKey); l != nil {
				l.inbox.Add(1)
			}
		}
	}
	return msg, nil
}

// appended returns the message that an equal request has appended before.
func appended(ctx context.Context, tx Tx, key *Idempotency) (Message, bool, error) {
	old, found, err := remembered(ctx, tx, key)
	if !found || err != nil {
		return Message{}, false, err
	}
	var id string
	if err := json.Unmarshal(old.Answer, &id); err != nil {
		return Message{}, false, err
	}
	run, err := tx.Run(ctx, old.RunKey)
	if err != nil {
		return Message{}, false, gone(err)
	}
	msgs, err := tx.MessagesByID(ctx, run.ThreadKey, []string{id})
	if err != nil || len(msgs) == 0 {
		return Message{}, false, err
	}
	return msgs[0], true, nil
}

// remembered returns what was answered to an earlier request with the key.
func remembered(ctx context.Context, tx Tx, key *Idempotency) (IdempotencyKey, bool, error) {
	if key == nil {
		return IdempotencyKey{}, false, nil
	}
	old, err := tx.IdempotencyKey(ctx, key.Scope)
	switch {
	case errors.Is(err, ErrNotFound):
		return old, false, nil
	case err != nil:
		return old, false, err
	case tx.Now().Sub(old.CreatedAt) > KeyLifetime:
		return old, false, nil
	case old.BodyHash != key.BodyHash:
		return old, false, errKeyReused
	}
	return old, true, nil
}

// KeyLifetime is how long the answer to a request with an Idempotency-Key is remembered.
const KeyLifetime = 24 * time.Hour

var errKeyReused = refuse(KindConflict, "idempotency_mismatch", "This Idempotency-Key was used with another body")
