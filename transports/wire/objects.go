package wire

import (
	"math"

	"github.com/batonrun/baton/runtime/agui"
)

// objectBytes is the least memory of an object in a list, such as a message, while its request is answered: decoded, as a row, and
// in the log's first event.
const objectBytes = 1 << 10

// Decoded estimates the memory of the decoded body: its length, or more if its lists hold many objects. It does not validate
// JSON.
func Decoded(body []byte) int {
	objects, listed := 0, false // whether an object that begins here is one of a list
	for i := 0; i < len(body); i++ {
		switch b := body[i]; b {
		case '"':
			i = agui.SkipString(body, i) - 1
			listed = false
		case '{':
			if listed {
				objects++
			}
			listed = false
		case '[', ']', '}': // the first of a list, or the next
			listed = true
		case ',', ' ', '\t', '\r', '\n':
		default:
			listed = false
		}
	}
	return max(len(body), min(objects, maxElements(math.MaxInt))*objectBytes)
}
