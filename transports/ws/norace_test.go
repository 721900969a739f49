//go:build !race

package ws_test

const raced = false
