//go:build !linux

package main

import "time"

// Reports on other systems lack these figures.

func cpu(int) time.Duration    { return 0 }
func threadCPU() time.Duration { return 0 }
func rss(int) int64            { return 0 }
func files(int) int            { return 0 }
func parent(int) int           { return 0 }

func written(int) int64           { return 0 }
func familyCPU(int) time.Duration { return 0 }
