//go:build !linux

package main

import "time"

// What only Linux tells is left out of the reports elsewhere.

func cpu(int) time.Duration    { return 0 }
func threadCPU() time.Duration { return 0 }
func rss(int) int64            { return 0 }
func files(int) int            { return 0 }
