package baton

import (
	"testing"
	"time"
)

// Routes are the routes that s has mounted.
func (s *Server) Routes() []string { return s.web.Routes() }

// Adjust returns cfg with a function that changes the configuration of one component, such as transports.Config, before a
// server uses it.
func Adjust[C any](cfg Config, f func(*C)) Config {
	before := cfg.adjust
	cfg.adjust = func(component any) {
		if before != nil {
			before(component)
		}
		if c, ok := component.(*C); ok {
			f(c)
		}
	}
	return cfg
}

// TidyEvery sets the period of the janitors of servers that a test opens.
func TidyEvery(t *testing.T, d time.Duration) {
	t.Helper()
	was := tidyEvery
	t.Cleanup(func() { tidyEvery = was })
	tidyEvery = d.String()
}
