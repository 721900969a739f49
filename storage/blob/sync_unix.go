//go:build unix

package blob

import (
	"errors"
	"os"
)

// syncFolder has the disk keep which files a folder has.
func syncFolder(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
