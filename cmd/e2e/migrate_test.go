package e2e

import (
	"strings"
	"testing"

	"github.com/batonrun/baton/storage/postgrestest"
)

// A later migration, after which this program can go on, is done under a living server with a run, and this program starts again
// after it: an upgrade that is taken back. It does not start once a migration has excluded it.
func TestCluster_GoesOnAfterALaterMigration(t *testing.T) {
	t.Parallel()
	db := database{url: postgrestest.New(t)}
	a := start(t, db)
	run := a.run("before", handed)
	a.begun("before")
	execute(t, db, `
BEGIN; SET LOCAL lock_timeout = '10s';
ALTER TABLE runs ADD COLUMN later bigint NOT NULL DEFAULT 0; ALTER TABLE threads ADD COLUMN later text; ALTER TABLE events ADD COLUMN later text;
ALTER TABLE messages ADD COLUMN later text; ALTER TABLE instances ADD COLUMN later text; CREATE INDEX ON runs (later);
INSERT INTO schema_versions (version_id, is_applied) VALUES (1000, TRUE);
COMMIT`)
	if row := a.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	checkLog(t, "before", a.all("before"))
	b := start(t, db)
	for _, s := range []*server{a, b} {
		if row := b.ended(s.run("after", handed)); row["status"] != "COMPLETED" {
			t.Errorf("a run after it is %v: %v", row["status"], row["error"])
		}
	}
	b.stop()
	execute(t, db, "UPDATE schema_oldest SET oldest = 1000")
	b.launch()
	<-b.done
	if out := b.output(); !strings.Contains(out, "newer Baton") {
		t.Errorf("it has not said why it does not start:\n%s", tail(out, 2000))
	}
}
