package storage

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/storage/storagetest"
)

// A page looks at so many runs for what no index has, says where it goes on, and its list ends.
func TestPagesLookAtSoManyRuns(t *testing.T) {
	const n = 2*lookedAt + 500
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			db := openForPlans(t, url)
			fillRuns(t, db, n)
			if _, err := db.write.ExecContext(t.Context(), `INSERT INTO run_names (project_id, name, user_id, run_key) VALUES ('p', 'r17', 'u', 17)`); err != nil {
				t.Fatal(err)
			}
			list := func(f model.RunFilter) (keys []int64, pages, uncounted int) {
				t.Helper()
				f.Project, f.Limit = "p", 500
				for {
					p, err := db.Runs(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					if pages++; p.Uncounted {
						uncounted++
					}
					for i := range p.Rows {
						keys = append(keys, p.Rows[i].Key)
					}
					if !p.More {
						return keys, pages, uncounted
					}
					if f.BeforeKey = p.Behind; f.BeforeKey == 0 {
						f.BeforeKey = p.Rows[len(p.Rows)-1].Key
					}
				}
			}
			if keys, pages, uncounted := list(model.RunFilter{User: "u", Statuses: []model.Status{model.Running}}); len(keys) != 0 || pages != 3 || uncounted != 3 {
				t.Errorf("of what is not there %d runs are listed on %d pages, %d of them without a total", len(keys), pages, uncounted)
			}
			if keys, _, _ := list(model.RunFilter{User: "u", Statuses: []model.Status{model.Cancelled}}); !slices.Equal(keys, []int64{20001, 10001, 1}) {
				t.Errorf("the user's cancelled runs are %v", keys)
			}
			if keys, _, uncounted := list(model.RunFilter{User: "rare", Statuses: []model.Status{model.Failed}}); len(keys) != 20 || uncounted != 0 {
				t.Errorf("of few runs %d are listed, on %d pages without a total", len(keys), uncounted)
			}
			keys, pages, _ := list(model.RunFilter{Text: "R17"})
			if len(keys) == 0 || pages < n/lookedAtText || slices.Contains(keys, 18) || !slices.Contains(keys, 17) {
				t.Errorf("by a part of a name %d runs are listed on %d pages", len(keys), pages)
			}
			named, _, _ := list(model.RunFilter{Text: "r17"})
			if named[0] != 17 || len(named) != len(keys) {
				t.Errorf("by the whole name %d runs are listed, the first is %d, want 17 and as many as by its parts: %d", len(named), named[0], len(keys))
			}
		})
	}
}
