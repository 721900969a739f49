package exec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// noteID returns the id of the piece with an agent's text about a thread under a key.
func noteID(thread int64, agent, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %q", thread, agent, key))
	return "n" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Remember implements host.Rememberer.
func (s *step) Remember(about, key, text string) error {
	if s.w.Parent != nil {
		return nil
	}
	run := cmp.Or(s.l.history.runOf(about), s.l.run.Key)
	return s.l.emit(s, []data.Row{&data.PromptPiece{RunKey: run, ID: noteID(s.l.run.ThreadKey, s.w.Agent, key), Body: data.MustJSON(text)}}, nil)
}

// Recall implements host.Rememberer.
func (s *step) Recall(ctx context.Context, keys []string) (map[string]string, error) {
	texts := make(map[string]string)
	if s.w.Parent != nil {
		return texts, nil
	}
	for some := range slices.Chunk(keys, 100) { // one text each is small
		ids := make([]string, len(some))
		for i, key := range some {
			ids[i] = noteID(s.l.run.ThreadKey, s.w.Agent, key)
		}
		found, err := commit.RetryUnavailable(ctx, func() (data.Page[data.PromptPiece], error) {
			return s.l.cfg.Store.PromptPieces(ctx, s.l.run.Project, s.l.run.ThreadKey, ids)
		})
		if err != nil {
			return nil, err
		}
		for i := range found.Rows {
			var text string
			if err := json.Unmarshal(found.Rows[i].Body, &text); err != nil {
				return nil, err
			}
			if at := slices.Index(ids, found.Rows[i].ID); at >= 0 {
				texts[some[at]] = text
			}
		}
	}
	return texts, nil
}
