//go:build race

package sim_test

// raced says that the race detector is on, with which all takes ten times as long.
const raced = true
