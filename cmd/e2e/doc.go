// Package e2e contains tests that run the real binary on real databases, kill it, and check the remaining data. `make test` repeats
// each test a tenth as often as `make soak` (BATON_SOAK=1).
package e2e
