package document

import "strings"

// Hint suggests the most similar of names, as the end of a sentence. It returns "" if none is similar.
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

// distance returns the edit distance of a and b. Long names are far from all others.
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
