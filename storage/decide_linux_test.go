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
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, url)
	if err := again.Join(t.Context(), "another", ""); err != nil {
		t.Fatal(err)
	}
	log.db, log.n = again, 0
	before := bytesRead(t)
	if err := log.look(t); err != nil {
		t.Fatal(err)
	}
	if n := bytesRead(t) - before; n == 0 || n > 1<<20 {
		t.Errorf("the view of a thread takes %d bytes", n)
	}
}

// bytesRead is how many bytes the process has read so far.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(io), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
