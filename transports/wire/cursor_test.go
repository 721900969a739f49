package wire_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// FuzzLastEventID checks that the cursor of a stream is an event's id, or latest, or refused.
func FuzzLastEventID(f *testing.F) {
	for _, seed := range []string{"0", "57", "latest", "", "-1", "+1", "LATEST", "9223372036854775808", "1e3", "0x10", "\x00", "57\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		after, err := wire.EventID(id)
		refusal, ok := errors.AsType[*runtime.Error](err)
		switch {
		case err != nil && (!ok || refusal.Kind != runtime.KindInvalid || refusal.Code == "" || refusal.Detail == ""):
			t.Errorf("%q is refused with %#v", id, err)
		case err == nil && id == "latest" && after != runtime.Latest, err == nil && id != "latest" && after < 0:
			t.Errorf("%q means %d", id, after)
		case err != nil && strconv.FormatInt(max(after, 0), 10) == id && id != "0":
			t.Errorf("%q is refused", id)
		}
	})
}
