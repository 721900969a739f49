package llmtest_test

import (
	"context"
	"fmt"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/ollama"
)

func Example() {
	server := llmtest.New(llmtest.Each(llmtest.Script{Steps: []llmtest.Step{
		llmtest.Text("Let me see. "), llmtest.Call(0, "call_1", "calculator"), llmtest.Arguments(0, `{"expression":"6*7"}`),
	}}))
	defer server.Close()
	model, err := ollama.New(ollama.Config{Model: "qwen3", BaseURL: server.URL})
	if err != nil {
		panic(err)
	}
	question := llm.Request{Messages: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "What is 6 times 7?")}}
	answer, err := model.Stream(context.Background(), question, func(p llm.Piece) error {
		fmt.Print(p.Text)
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.Calls[0].FunctionCall.Name, answer.Calls[0].FunctionCall.Arguments)
	fmt.Println(len(server.Requests()), "request")
	// Output:
	// Let me see. calculator {"expression":"6*7"}
	// 1 request
}
