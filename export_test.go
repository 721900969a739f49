package baton

import (
	"testing"
	"time"
)

// Routes are the routes that s has mounted.
func (s *Server) Routes() []string { return s.web.Routes() }

// TidyEvery has the janitors of the servers that a test opens tidy so often.
func TidyEvery(t *testing.T, d time.Duration) {
	t.Helper()
	was := tidyEvery
	t.Cleanup(func() { tidyEvery = was })
	tidyEvery = d.String()
}
