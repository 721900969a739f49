package plugins

import (
	"errors"
	"fmt"
)

// Map executes a node once for each item of a list. Each item is a step of the run with the node's Retry and Timeout, named <id>[<index>],
// from index 0. The list, the keys and the inputs are computed once, when the node begins, and recorded: a restarted run executes the items
// that have not ended. The node's Approval asks once, before the first item.
//
// In later expressions, <id>.items and <id>.output are the list of the items' outputs in the order of the input, <id>.errors the list of the
// failed ones ({key, index, code, message}), and <id>.answer the items' answers, joined by blank lines. An empty list is a success.
type Map struct {
	Over string // an expression for the list: up to MaxItems items
	// As is the name of the item in Key and in the node's Input, default item. Without an Input the item itself is the input.
	As string `json:",omitempty"`
	// Key is an expression for the item's key, a string or a number, default the index. Keys must differ.
	Key string `json:",omitempty"`
	Max int    `json:",omitempty"` // items at once, default DefaultMax; an item that waits counts
	// OnError is the effect of a failed item: FailMap, the default, fails the node and stops the others; CollectErrors has null in its place;
	// SkipErrors leaves it out.
	OnError string `json:",omitempty"`
}

// The values of Map.OnError.
const (
	FailMap       = "fail"
	CollectErrors = "collect"
	SkipErrors    = "skip"
)

// Limits of a Map.
const (
	MaxItems   = 100
	DefaultMax = 8
)

func (m *Map) validate() error {
	switch {
	case m == nil:
		return nil
	case m.Over == "":
		return errors.New("map: there is no Over")
	case m.As != "" && !nodeID.MatchString(m.As):
		return fmt.Errorf("map: As must match %s", nodeID)
	case m.Max < 0 || m.Max > MaxItems:
		return fmt.Errorf("map: Max is %d, and must be 1 to %d", m.Max, MaxItems)
	case m.OnError != "" && m.OnError != FailMap && m.OnError != CollectErrors && m.OnError != SkipErrors:
		return fmt.Errorf("map: OnError is %q, and must be fail, collect or skip", m.OnError)
	}
	return nil
}
