package wire

// objectBytes is what an object of a list, such as a message, has in memory from when its request is decoded until that is answered, at
// least: as what it is decoded to, as a row, and in the log's first event.
const objectBytes = 1 << 10

// Decoded is how many bytes what body is decoded to has in memory, about: as many as body, unless its lists hold many objects. It does
// not tell JSON from what is not.
func Decoded(body []byte) int {
	objects, listed := 0, false // whether an object that begins here is one of a list
	for i := 0; i < len(body); i++ {
		switch b := body[i]; b {
		case '"':
			i = stringEnd(body, i)
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
	return max(len(body), min(objects, maxElements)*objectBytes)
}
