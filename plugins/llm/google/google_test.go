package google_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/google"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask calls a model whose server answers with the chunks, and returns the request's body too.
func ask(t *testing.T, req llm.Request, chunks ...string) (res llm.Response, body string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body = string(data)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range chunks {
			fmt.Fprintf(w, "data: %s\r\n\r\n", c)
		}
	}))
	defer server.Close()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	defer transport.CloseIdleConnections()
	m, err := google.New(google.Config{Model: "gemini-2.5-flash", APIKey: "k", BaseURL: "http://google.example/v1beta", HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	if req.Messages == nil {
		req.Messages = []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "?")}
	}
	res, err = m.Stream(t.Context(), req, func(llm.Piece) error { return nil })
	return res, body, err
}

const end = `{"candidates":[{"finishReason":"STOP"}]}`

func TestStream_FailedAnswers(t *testing.T) {
	for chunk, want := range map[string]string{
		`{"promptFeedback":{"blockReason":"SAFETY"}}`:                 "content_refused",
		`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`: "bad_answer",
		`{"candidates":[{"content":{"parts":[{"text":"half"}]}}]}`:    "connection_lost",
		`{"error":{"code":503,"status":"UNAVAILABLE"}}`:               "overloaded",
		`{`: "provider_error",
	} {
		_, _, err := ask(t, llm.Request{}, chunk)
		var got *llm.Error
		if !errors.As(err, &got) || got.Code != want {
			t.Errorf("%s: %#v, want %s", chunk, err, want)
		}
	}
}

func TestStream_ReturnsSignatures(t *testing.T) {
	res, _, err := ask(t, llm.Request{},
		`{"candidates":[{"content":{"parts":[{"text":"Well."}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"dA=="}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"f1","name":"a","args":{"x":1}},"thoughtSignature":"YQ=="},{"functionCall":{"name":"b"}}]}}]}`, end)
	if err != nil || len(res.Calls) != 2 || res.Calls[1].FunctionCall.Arguments != "{}" {
		t.Fatalf("%+v, %v", res, err)
	}
	said := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: res.Parts}
	results := llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
		llms.ToolCallResponse{ToolCallID: res.Calls[0].ID, Content: "one"}, llms.ToolCallResponse{ToolCallID: res.Calls[1].ID, Content: "[2]"},
	}}
	_, body, err := ask(t, llm.Request{Messages: []llms.MessageContent{said, results}}, end)
	want := `{"contents":[{"role":"model","parts":[{"text":"Well.","thoughtSignature":"dA=="},` +
		`{"thoughtSignature":"YQ==","functionCall":{"id":"f1","name":"a","args":{"x":1}}},{"functionCall":{"name":"b","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"f1","name":"a","response":{"result":"one"}}},{"functionResponse":{"name":"b","response":{"result":"[2]"}}}]}]`
	if err != nil || !strings.HasPrefix(body, want) {
		t.Errorf("%v\n got %s\nwant %s", err, body, want)
	}
}

func TestStream_ToolsWithSchema(t *testing.T) {
	req := llm.Request{Schema: []byte(`{"type":"object"}`)}
	if _, body, err := ask(t, req, end); err != nil || !strings.Contains(body, "responseJsonSchema") {
		t.Errorf("%v %s", err, body)
	}
	req.Options.Tools = []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "now"}}}
	req.Options.ToolChoice = llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: "now"}}
	if _, body, err := ask(t, req, end); err != nil || strings.Contains(body, "responseJsonSchema") || !strings.Contains(body, `"allowedFunctionNames":["now"],"mode":"ANY"`) {
		t.Errorf("%v %s", err, body)
	}
	req.Options.Model = "gemini-3.8-flash"
	if _, body, err := ask(t, req, end); err != nil || !strings.Contains(body, "responseJsonSchema") {
		t.Errorf("%v %s", err, body)
	}
}
