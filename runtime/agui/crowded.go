package agui

// MostValues is how many values a JSON text of so many bytes may hold where a stranger has sent it and all of it is decoded: two
// bytes make a value, which then takes sixty. Real ones take more.
func MostValues(bytes int) int { return min(freeValues+bytes/bytesOfValue, maxValues) }

const (
	freeValues   = 10_000 // of any text
	bytesOfValue = 8      // for one more
	maxValues    = 200_000
)

// Crowded reports whether a JSON text holds more values than MostValues, members of objects and elements of arrays. It does not
// tell JSON from what is not.
func Crowded(text []byte) bool {
	most := MostValues(len(text))
	if len(text) <= most { // each value takes a byte
		return false
	}
	values := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = endOfText(text, i)
		case ',':
			values++
		case '[', '{':
			if i+1 < len(text) && text[i+1] != text[i]+2 { // it is not empty
				values++
			}
		}
	}
	return values > most
}

// CountMembers is how many members the objects of a JSON text name, each as often as it is there. It does not tell JSON from what is not.
func CountMembers(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = endOfText(text, i)
		case ':':
			n++
		}
	}
	return n
}

// endOfText is where the string that begins at i ends: at its quote, or behind all of text.
func endOfText(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
