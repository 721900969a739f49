package memory_test

import (
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/sim/memory"
	"github.com/batonrun/baton/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(*testing.T) model.Store { return memory.New(time.Now).Open() })
}
