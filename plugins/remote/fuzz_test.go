package remote_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/agui/aguitest"
)

// canned answers the first two requests with a stream, and later ones with an empty run.
type canned struct {
	stream []byte
	asked  int
}

func (c *canned) RoundTrip(*http.Request) (*http.Response, error) {
	if c.asked++; c.asked > 2 {
		c.stream = []byte("data: {\"type\":\"RUN_FINISHED\"}\n\n")
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(c.stream)),
	}, nil
}

// Only legal events reach the log, whatever a remote sends.
func FuzzRelay_EmitsOnlyLegalEvents(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 4, 0, 13, 0, 15, 4, 5, 0, 31, 1, 30, 255}, "")
	f.Add([]byte{28, 255, 15, 0, 0, 0x11, 17, 0, 0, 1, 5, 1, 7, 0x11, 18, 0, 19, 0}, "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"delta\":\"x\"}\n\n")
	f.Add([]byte{3}, `data: {"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"c","function":{"name":"n"}}]}]}`+"\r\r")
	f.Add([]byte{9}, `data: {"type":"STATE_DELTA","delta":[{"op":"add","path":"/a/b","value":1},{"op":"copy","from":"","path":"/x"},{"op":"remove","path":""}]}`+"\n\n")
	f.Fuzz(func(t *testing.T, data []byte, raw string) {
		var body bytes.Buffer
		fmt.Fprint(&body, "data: {\"type\":\"RUN_STARTED\"}\n\n")
		for i, ev := range aguitest.Random(data[:min(len(data), 512)]) {
			projection := agui.AGUI1
			if i%3 == 0 {
				projection = agui.Stored
			}
			fmt.Fprintf(&body, "data: %s\n\n", ev.AppendJSON(nil, projection))
			if i == 3 {
				body.WriteString(raw)
			}
		}
		fmt.Fprint(&body, "\n\n"+raw+"\n\ndata: {\"type\":\"RUN_FINISHED\"}\n\n")
		a, err := remote.New(remote.Config{
			Name: "any", URL: "http://remote.test/", Client: &http.Client{Transport: &canned{stream: body.Bytes()}},
			Log: slog.New(slog.DiscardHandler), MaxEvent: 1 << 16, Reconnect: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg := plugintest.Config{
			Input:  plugins.Input{Query: "go", Tools: []agui.Tool{{Name: "n"}, {Name: "t"}}},
			Answer: func(agui.Interrupt) plugins.Answer { return plugins.Answer{} },
		}
		res, err := plugintest.Execute(t.Context(), a, cfg)
		if err != nil {
			t.Fatalf("%v\n%s\nof\n%s", err, res.Log(), body.String())
		}
		if errors.Is(res.Err, plugins.ErrWaiting) {
			t.Fatal("it waits although everything was answered")
		}
	})
}
