package openapi_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// frames returns the frames of an event stream that have data, as the document describes them.
func frames(t *testing.T, text string) []any {
	t.Helper()
	var list []any
	for block := range strings.SplitSeq(text, "\n\n") {
		f := make(object)
		for line := range strings.SplitSeq(block, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "id":
				f["id"] = value
				if _, err := strconv.Atoi(value); err == nil {
					f["id"] = json.Number(value)
				}
			case "event":
				f["event"] = value
			case "data":
				f["data"] = decode(t, []byte(value))
			}
		}
		if f["data"] != nil {
			list = append(list, f)
		}
	}
	return list
}
