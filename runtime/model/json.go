package model

import (
	"bytes"
	"encoding/json"
)

// JSON is v as JSON, in which what is JSON already keeps its characters as they are.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
