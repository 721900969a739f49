package plugintest_test

import (
	"context"
	"fmt"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// In tests, Run fails for illegal events, and Replay fails if the agent is not safe to replay after a crash.
func ExampleExecute() {
	res, err := plugintest.Execute(context.Background(), echo.Agent{}, plugintest.Config{
		Input: plugins.Input{Query: "hello world"},
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, ev := range res.Events {
		switch ev := ev.(type) {
		case agui.TextMessageContent:
			fmt.Printf("%s %q\n", ev.Type(), ev.Delta)
		default:
			fmt.Println(ev.Type())
		}
	}
	fmt.Println(res.Text())
	// Output:
	// RUN_STARTED
	// TEXT_MESSAGE_START
	// TEXT_MESSAGE_CONTENT "hello"
	// TEXT_MESSAGE_CONTENT " world"
	// TEXT_MESSAGE_END
	// RUN_FINISHED
	// hello world
}
