//go:build !unix

package blob

import "os"

// syncFolder does nothing: folders cannot be synced here.
func syncFolder(*os.Root, string) error { return nil }
