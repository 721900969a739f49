package transporttest_test

import (
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestTransportsShowOneLog(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + sqlitetest.New(t) },
		"PostgreSQL": func(t *testing.T) string { return postgrestest.New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			database := open(t)
			start := func(t *testing.T) *transporttest.Server {
				return transporttest.Start(t, transporttest.Config{Database: database})
			}
			transporttest.Run(t, start, views())
		})
	}
}

func views() map[string]transporttest.View {
	return map[string]transporttest.View{
		"SSE":                  {Projection: agui.Seed, Read: readEvents, Step: 5},
		"SSE answer":           {Projection: agui.AGUI1, Read: readAnswers("/api/v1/agent/runs"), FirstSpans: true},
		"AG-UI":                {Projection: agui.AGUI1, Read: readAnswers("/api/v1/agui/"), FirstSpans: true},
		"AG-UI over WebSocket": {Projection: agui.AGUI1, Read: readDoor, FirstSpans: true, NoIDs: true},
		"WebSocket":            {Projection: agui.Seed, Read: readMirror, Step: 13},
		"WebSocket for many":   {Projection: agui.Seed, Read: readSubscription, Step: 17},
		"REST":                 {Projection: agui.Public, Read: readPages, Step: 11},
		"MCP":                  {Projection: agui.Public, Read: readTool, Step: 31},
	}
}
