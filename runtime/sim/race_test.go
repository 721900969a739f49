//go:build race

package sim_test

// raced reports that the race detector is on, which makes everything ten times slower.
const raced = true
