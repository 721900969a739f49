package remote_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
)

// An AG-UI endpoint is a worker, so baton.Config.Plugins accepts it.
func Example() {
	elsewhere := httptest.NewServer(stream(started + hello + finished))
	defer elsewhere.Close()
	agent, err := remote.New(remote.Config{
		Name: "writer", URL: elsewhere.URL, Headers: map[string]string{"Authorization": "Bearer token"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.Close(context.Background())
	res, err := plugintest.Execute(context.Background(), agent, plugintest.Config{Input: plugins.Input{Query: "hi"}})
	fmt.Println(res.Output.Answer, err)
	// Output: hello world <nil>
}
