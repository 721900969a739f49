package cmd

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interrupts returns two contexts: stop ends with ctx or at the first SIGINT or SIGTERM, now at the second.
// release ends both and restores the default handling of the signals.
func interrupts(ctx context.Context) (stop, now context.Context, release func()) {
	stop, stopNow := context.WithCancel(ctx)
	now, nowNow := context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() { // ends with release
		for _, cancel := range []context.CancelFunc{stopNow, nowNow} {
			select {
			case <-signals:
				cancel()
			case <-done:
				return
			}
		}
	}()
	return stop, now, func() {
		signal.Stop(signals)
		close(done)
		stopNow()
		nowNow()
	}
}
