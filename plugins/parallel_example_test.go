package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// Weather is a tool for one city.
type Weather struct{}

func (Weather) Info() plugins.Info {
	return plugins.Info{Name: "weather", Description: "The weather of a city."}
}

func (Weather) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	var args struct{ City string }
	err := json.Unmarshal(call.Args, &args)
	return agui.ToolOutput{ResultSummary: "sun in " + args.City}, err
}

// Traveller makes concurrent calls, then runs several steps for each city concurrently.
type Traveller struct{}

func (Traveller) Info() plugins.Info { return plugins.Info{Name: "traveller"} }

func (Traveller) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	outs, err := run.CallTools(ctx,
		plugins.ToolCall{Name: "weather", Args: map[string]string{"city": "Berlin"}},
		plugins.ToolCall{Name: "weather", Args: map[string]string{"city": "Rome"}},
	)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	for _, city := range []string{"Berlin", "Rome"} {
		ctx := run.Branch(ctx, city)
		run.Go(func() error {
			if err := run.Do(ctx, "book", nil, func(context.Context) error { return nil }); err != nil {
				return err
			}
			_, err := run.Ask(ctx, agui.Interrupt{Message: "Travel to " + city + "?"})
			return err
		})
	}
	return agui.WorkerOutput{Answer: outs[0].ResultSummary + ", " + outs[1].ResultSummary}, nil
}

func ExampleRun_Branch() {
	res, err := plugintest.Execute(context.Background(), Traveller{}, plugintest.Config{
		Tools:  []plugins.Tool{Weather{}},
		Answer: func(agui.Interrupt) plugins.Answer { return plugins.Answer{Payload: []byte("true")} },
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(res.Text())
	fmt.Println(len(res.Questions), "questions in one span")
	// Output:
	// sun in Berlin, sun in Rome
	// 2 questions in one span
}
