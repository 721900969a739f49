package llm_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime/agui"
)

// sink is a host that accepts everything.
type sink struct{ plugins.Host }

func (sink) NewID() string                                               { return "id" }
func (sink) Emit(agui.Event) error                                       { return nil }
func (sink) Plugins() (tools, agents []plugins.Info)                     { return nil, nil }
func (sink) Next(context.Context, plugins.Use) ([]agui.Message, error)   { return nil, nil }
func (sink) Usage(context.Context, plugins.Use, plugins.ModelCall) error { return nil }

func (sink) Messages(context.Context, int) ([]agui.Message, bool, error) {
	return []agui.Message{{ID: "q", Role: agui.RoleUser, Content: "go"}}, false, nil
}

func (sink) Do(ctx context.Context, _ plugins.Use, fn func(context.Context) (plugins.Record, error)) (json.RawMessage, error) {
	rec, err := fn(ctx)
	return rec.Output, err
}

// tokens is a reply of a thousand tokens without delay.
func tokens() *model {
	r := reply{resp: llm.Response{Finish: "stop", Usage: usage}}
	for range 1000 {
		r.pieces = append(r.pieces, llm.Piece{Text: "word"})
		r.resp.Text += "word"
	}
	return &model{replies: []reply{r}}
}

// BenchmarkTokens measures a thousand tokens in a bare loop, and in the worker before they reach a host.
func BenchmarkTokens(b *testing.B) {
	in := plugins.Input{Query: "go", Execution: 1}
	bare := func(m *model) error {
		_, err := m.Stream(context.Background(), llm.Request{}, func(llm.Piece) error { return nil })
		return err
	}
	worker := func(m *model) error {
		a, err := llm.New(llm.Config{Name: "assistant", Model: m})
		if err == nil {
			_, err = plugins.Execute(context.Background(), a, sink{}, in)
		}
		return err
	}
	for name, read := range map[string]func(*model) error{"bare": bare, "worker": worker} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			m := tokens()
			for b.Loop() {
				m.asked = nil
				if err := read(m); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/token")
		})
	}
}

// BenchmarkRun measures a thousand tokens through the runtime on SQLite until the run is COMPLETED.
func BenchmarkRun(b *testing.B) {
	m := tokens()
	rt := open(b, newAgent(b, llm.Config{Model: m}))
	for b.Loop() {
		m.mu.Lock()
		m.asked = nil
		m.mu.Unlock()
		rt.wait(rt.startOn("t"+time.Now().Format("150405.000000000"), "go").RunID, "COMPLETED")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/token")
}
