package llm_test

import (
	"context"
	"fmt"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/plugintest"
)

// oracle is a model with a constant answer.
type oracle struct{}

func (oracle) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "Two."}}}, nil
}

func (oracle) Call(context.Context, string, ...llms.CallOption) (string, error) { return "Two.", nil }

// Any model of langchaingo plays an agent.
func Example() {
	assistant, err := llm.New(llm.Config{
		Name:   "assistant",
		System: "You are brief.",
		Model:  oracle{},
		Tools:  []string{"calculator", "files.*"},
		Steps:  8,
	})
	if err != nil {
		panic(err)
	}
	res, err := plugintest.Execute(context.Background(), assistant, plugintest.Config{Input: plugins.Input{Query: "What is 1 + 1?"}})
	fmt.Println(res.Text(), err)
	// Output: Two. <nil>
}
