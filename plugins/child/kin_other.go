//go:build !linux

package child

func killKin(string) {} // the environment of other processes is not readable

// Used reports false: the processor time of the program is not known.
func (c *Child) Used() (ticks int64, known bool) { return 0, false }
