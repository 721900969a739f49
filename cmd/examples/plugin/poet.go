package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/typed"
)

// poet is an agent: a function that streams its answer. The call of the tool is recorded, so that after a crash between the two lines
// the agent neither looks the rhymes up again nor writes the first line twice.
var poet = plugins.AgentFunc("poet", func(ctx context.Context, run *plugins.Run) error {
	word := strings.TrimRight(run.Input.Query, ".!? ")
	word = word[strings.LastIndex(word, " ")+1:]
	err := run.Do(ctx, "first line", nil, func(context.Context) error {
		_, err := fmt.Fprintf(run.Text(), "There was a young man with a %s,\n", word)
		return err
	})
	if err != nil {
		return err
	}
	found, err := run.CallTool(ctx, "rhymes", rhymeArgs{Word: word})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(run.Text(), "who found that it rhymed with %s.", found.ResultSummary)
	return err
})

// rhymeArgs are the arguments of rhymes. The tool's JSON Schema is derived from them.
type rhymeArgs struct {
	Word string `json:"word" jsonschema:"the word to rhyme with"`
}

// rhymes is a tool: a function from one Go value to another. It may be called again after a crash.
var rhymes = typed.Tool(plugins.Info{Name: "rhymes", Description: "Finds a word that rhymes with another.", Idempotent: true},
	func(_ context.Context, _ *plugins.Call, in rhymeArgs) (string, error) {
		vowel := strings.IndexAny(in.Word, "aeiouy")
		if vowel < 0 {
			return "", &plugins.Error{Code: "no_rhyme", Message: fmt.Sprintf("%q has no vowel", in.Word)}
		}
		front := "b"
		if strings.HasPrefix(in.Word, front) {
			front = "m"
		}
		return front + in.Word[vowel:], nil
	})
