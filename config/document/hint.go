package document

import "strings"

// Hint proposes the one of names that was probably meant by got, as the end of a sentence, or is empty when none is near.
func Hint(got string, names []string) string {
	best, least := "", 3
	for _, name := range names {
		d := distance(strings.ToLower(got), strings.ToLower(name))
		if strings.HasSuffix(name, "."+got) {
			d = 1
		}
		if d < least && d < len(name) {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance counts the letters to insert, delete or replace to get from a to b; long names are far from all others.
func distance(a, b string) int {
	if max(len(a), len(b)) > 100 {
		return 100
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
