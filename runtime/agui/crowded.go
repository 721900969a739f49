package agui

// MostValues is the limit of values in a stranger's JSON text of that length if all of it is decoded: two bytes make a value, which
// then takes sixty. Real texts stay below it.
func MostValues(bytes int) int { return min(freeValues+bytes/bytesOfValue, maxValues) }

const (
	freeValues   = 10_000 // of any text
	bytesOfValue = 8      // for one more
	maxValues    = 200_000
)

// Crowded reports whether a JSON text has more values (members of objects and elements of arrays) than MostValues. It does not
// validate JSON.
func Crowded(text []byte) bool {
	most := MostValues(len(text))
	if len(text) <= most { // each value takes at least a byte
		return false
	}
	values := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = SkipString(text, i) - 1
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

// CountMembers counts the members of all objects in a JSON text. It does not validate JSON.
func CountMembers(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = SkipString(text, i) - 1
		case ':':
			n++
		}
	}
	return n
}
