package wire

import "github.com/batonrun/baton/plugins/llm"

// Complete ends an answer.
func Complete(a *Answer) (llm.Response, error) { return a.complete() }
