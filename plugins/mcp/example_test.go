package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/mcp"
)

// The tools of a server are named after it.
func Example() {
	server := newServer(nil)
	endpoint := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer endpoint.Close()
	tools, err := mcp.New(mcp.Config{Name: "files", URL: endpoint.URL, Allow: []string{"echo"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := tools.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer tools.Close(context.Background())
	<-tools.Settled()
	for _, tool := range tools.Tools() {
		out, err := tool.Call(context.Background(), &plugins.Call{ID: "1", Args: json.RawMessage(`{"text":"hi"}`)})
		fmt.Println(tool.Info().Name, out.ResultSummary, err)
	}
	// Output: files.echo {"text":"hi"} <nil>
}
