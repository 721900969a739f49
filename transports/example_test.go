package transports_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/ws"
)

// A server with one agent. A client starts a run and reads its events in the same response; then it reads the run as JSON,
// and replays the thread over a WebSocket.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "baton")
	check(err)
	defer os.RemoveAll(dir)
	db, err := storage.Open(ctx, storage.Config{URL: "sqlite:" + filepath.Join(dir, "baton.db"), Migrate: true})
	check(err)
	agents := new(host.Registry)
	check(agents.Add(echo.Agent{}))
	rt, err := runtime.New(runtime.Config{Store: db, Registry: agents})
	check(err)
	check(rt.Start(ctx))

	streams := transports.NewStreams(transports.StreamConfig{Runtime: rt})
	server, err := transports.New(
		transports.Config{Runtime: rt, Streams: streams, Listen: "127.0.0.1:0"},
		sse.Transport{Streams: streams},
		rest.Transport{Runtime: rt, Streams: streams},
		ws.Transport{Runtime: rt, Streams: streams},
	)
	check(err)
	ln, err := server.Listen(ctx)
	check(err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }() // ends with Shutdown

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(http.MethodPost, "http://"+server.Addr()+"/api/v1/agent/runs",
		strings.NewReader(`{"agent": "echo", "threadId": "main", "runId": "first", "content": "hello"}`))
	check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(req)
	check(err)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			fmt.Println(event)
		}
	}
	check(resp.Body.Close())

	resp, err = client.Get("http://" + server.Addr() + "/api/projects/default/agent-runs/first")
	check(err)
	body, err := io.ReadAll(resp.Body)
	check(err)
	check(resp.Body.Close())
	var run struct{ Status, OutputSummary string }
	check(json.Unmarshal(body, &run))
	fmt.Println(run.Status, run.OutputSummary)

	socket, resp, err := websocket.DefaultDialer.Dial("ws://"+server.Addr()+"/api/v1/agent/runs/main/ws?after_event_id=6", nil)
	check(err)
	check(resp.Body.Close())
	_, frame, err := socket.ReadMessage()
	check(err)
	var last struct {
		ID    int
		Event struct{ Type string }
	}
	check(json.Unmarshal(frame, &last))
	fmt.Println(last.ID, last.Event.Type)
	check(socket.Close())

	check(errors.Join(rt.Shutdown(ctx), server.Shutdown(ctx), <-served, db.Close()))
	// Output:
	// RUN_STARTED
	// STATE_SNAPSHOT
	// STEP_STARTED
	// TEXT_MESSAGE_START
	// TEXT_MESSAGE_CONTENT
	// TEXT_MESSAGE_END
	// STEP_FINISHED
	// RUN_FINISHED
	// COMPLETED hello
	// 7 RUN_FINISHED
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
