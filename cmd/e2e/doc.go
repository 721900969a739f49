// Package e2e holds the tests that run the real binary on real databases, kill it, and look at what is
// left. `make test` runs a tenth of each count, `make soak` (BATON_SOAK=1) all of it.
package e2e
