//go:build !linux

package main

func memory() string { return "" }
