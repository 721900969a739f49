package plugins_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/tools"
	"github.com/batonrun/baton/runtime/agui"
)

// Greeter streams its answer.
type Greeter struct{}

func (Greeter) Info() plugins.Info {
	return plugins.Info{Name: "greeter", Description: "Greets."}
}

func (Greeter) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if err := run.Progress(0.5, "greeting"); err != nil {
		return agui.WorkerOutput{}, err
	}
	sum, err := run.CallTool(ctx, "calculator", map[string]string{"expression": "6 * 7"})
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	w := run.Text()
	for _, word := range []string{"Hello ", run.Input.Query, ", it is ", sum.ResultSummary, "."} {
		if _, err := io.WriteString(w, word); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{SuggestedActions: []string{"wave"}}, w.Close()
}

func Example() {
	res, err := plugintest.Execute(context.Background(), Greeter{}, plugintest.Config{
		Input: plugins.Input{Query: "world"},
		Tools: []plugins.Tool{tools.Calculator{}},
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, ev := range res.Events {
		fmt.Println(ev.Type())
	}
	fmt.Println(res.Output.Answer)
	// Output:
	// RUN_STARTED
	// CUSTOM
	// TOOL_CALL_START
	// TOOL_CALL_ARGS
	// TOOL_CALL_END
	// TOOL_CALL_RESULT
	// TEXT_MESSAGE_START
	// TEXT_MESSAGE_CONTENT
	// TEXT_MESSAGE_CONTENT
	// TEXT_MESSAGE_CONTENT
	// TEXT_MESSAGE_CONTENT
	// TEXT_MESSAGE_CONTENT
	// TEXT_MESSAGE_END
	// RUN_FINISHED
	// Hello world, it is 42.
}

// Deployer asks before it acts. It is replayed when the answer arrives, so its earlier work is in a Do.
type Deployer struct{}

func (Deployer) Info() plugins.Info {
	return plugins.Info{Name: "deployer", Description: "Deploys what one wants deployed."}
}

func (Deployer) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	var version string
	err := run.Do(ctx, "build", &version, func(context.Context) error {
		fmt.Println("(building)")
		version = "v1.2.3"
		return nil
	})
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	answer, err := run.Ask(ctx, agui.Interrupt{Reason: "confirmation", Message: "Deploy " + version + "?"})
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	if answer.Cancelled || !strings.Contains(string(answer.Payload), "true") {
		return agui.WorkerOutput{Answer: "Not deployed."}, nil
	}
	return agui.WorkerOutput{Answer: "Deployed " + version + "."}, nil
}

func ExampleRun_Ask() {
	res, err := plugintest.Execute(context.Background(), Deployer{}, plugintest.Config{
		Answers: []plugins.Answer{{Payload: []byte(`{"approved": true}`)}},
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(res.Questions[0].Message)
	fmt.Println(res.Text())
	// Output:
	// (building)
	// Deploy v1.2.3?
	// Deployed v1.2.3.
}
