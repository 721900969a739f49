package sqlite_test

import (
	"os"
	"strings"
	"testing"

	"github.com/batonrun/baton/storage/sqlite"
)

// Network agrees with the kernel about every disk that is mounted here.
func TestNetwork_KnowsMounts(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{} // the last mount of a directory is the one that is seen
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 {
			at[fields[1]] = fields[2]
		}
	}
	for dir, kind := range at {
		name, _, _ := strings.Cut(kind, ".")
		got := sqlite.Network(dir)
		switch name {
		case "nfs", "nfs4", "cifs", "smb3", "fuse", "9p", "ceph":
			if _, err := os.Stat(dir); got == "" && err == nil {
				t.Errorf("%s is %s", dir, kind)
			}
		case "ext4", "xfs", "btrfs", "tmpfs", "overlay", "proc":
			if got != "" {
				t.Errorf("%s is %s, not %s", dir, kind, got)
			}
		}
	}
}
