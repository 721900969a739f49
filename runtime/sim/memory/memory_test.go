package memory_test

import (
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/sim/memory"
	"github.com/batonrun/baton/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(*testing.T) data.Store { return memory.New(time.Now).Open() })
}
