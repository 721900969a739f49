package stream_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/transports/stream"
)

// TestAnswersAreTakenAtALeastRate has clients take answers, that are written in pieces of any size, so fast.
func TestAnswersAreTakenAtALeastRate(t *testing.T) {
	t.Parallel()
	const whole = 5 * time.Minute
	for name, c := range map[string]struct {
		size, piece int           // of the answer, and of one write
		rate        int           // bytes that the client takes in a second
		pause       time.Duration // of the server between two writes
		within      time.Duration // by which the client is given up; 0 when it gets all
	}{
		"a byte a second":                    {100 << 10, 100 << 10, 1, 0, 11 * time.Second},
		"a byte a second of a large answer":  {40 << 20, 40 << 20, 1, 0, 11 * time.Second},
		"a byte a second of many writes":     {100 << 10, 1 << 10, 1, 0, 11 * time.Second},
		"a little too slow":                  {1 << 20, 1 << 20, 3 << 10, 0, time.Minute},
		"a little too slow, in many writes":  {1 << 20, 4 << 10, 3 << 10, 0, time.Minute},
		"just fast enough":                   {1 << 20, 1 << 20, 5 << 10, 0, 0},
		"just fast enough, in many writes":   {1 << 20, 4 << 10, 5 << 10, 0, 0},
		"longer than answers may last":       {40 << 20, 40 << 20, 64 << 10, 0, whole},
		"what the server itself is slow for": {200 << 10, 20 << 10, 1 << 20, 20 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				conn := stream.Own(stream.NewListener(nil, stream.ListenerConfig{}).Adopt(ours))
				defer conn.Close()
				got := make(chan int64)
				go func() { // ends with the connection
					n, err := int64(0), error(nil)
					for err == nil {
						var k int64
						k, err = io.CopyN(io.Discard, theirs, int64(c.rate))
						n += k
						<-time.After(time.Second)
					}
					got <- n
				}()
				conn.BeginRequest()
				begun := time.Now()
				_ = conn.SetWriteDeadline(begun.Add(whole))
				var err error
				for n := 0; n < c.size && err == nil; n += c.piece {
					_, err = conn.Write(make([]byte, min(c.piece, c.size-n)))
					<-time.After(c.pause)
				}
				took := time.Since(begun)
				_ = conn.Close()
				if n := <-got; c.within == 0 && (err != nil || n != int64(c.size)) {
					t.Errorf("it got %d of %d bytes in %s: %v", n, c.size, took, err)
				}
				if c.within > 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took > c.within) {
					t.Errorf("it was given up with %v after %s, want within %s", err, took, c.within)
				}
			})
		})
	}
}
