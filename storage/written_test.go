package storage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonrun/baton/storage"
)

// BenchmarkOneLiveRun commits one event after the other on SQLite, like a slowly streaming run, and measures the bytes
// that the process writes.
func BenchmarkOneLiveRun(b *testing.B) {
	path := filepath.Join(b.TempDir(), "baton.db")
	db, err := storage.Open(b.Context(), storage.Config{URL: "sqlite:" + path, Serve: true, Migrate: true})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	log := newLog(b, joined(b, db), 1)
	before := written(b)
	b.ResetTimer()
	for range b.N {
		log.commit(b, log.batch(1))
	}
	b.StopTimer()
	b.ReportMetric(float64(written(b)-before)/float64(b.N), "written-B/event")
}

func written(b *testing.B) (n int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0 // only available on Linux
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			return n
		}
	}
	return 0
}
