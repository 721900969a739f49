package storage_test

import (
	"fmt"
	"os"
	"testing"
)

// Like TestDecisionsReadNothingLarge, for pages with parts of large values that stand before the wanted columns.
func TestDecisionsReadNothingLargeOfAFile(t *testing.T) {
	url := newSQLite(t)
	db := open(t, url)
	log := newLog(t, joined(t, db), 1)
	log.crowd(t)
	must(t, db.Close())
	again := open(t, url)
	must(t, again.Members().Join(t.Context(), "another", ""))
	log.db, log.n = again, 0
	before := bytesRead(t)
	must(t, log.look(t))
	if n := bytesRead(t) - before; n == 0 || n > 1<<20 {
		t.Errorf("the view of a thread takes %d bytes", n)
	}
}

// bytesRead is how many bytes the process has read so far.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	io, err := os.ReadFile("/proc/self/io")
	must(t, err)
	if _, err := fmt.Sscanf(string(io), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
