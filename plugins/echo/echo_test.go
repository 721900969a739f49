package echo_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func deltas(res *plugintest.Result) []string {
	var list []string
	for _, ev := range res.Events {
		if c, ok := ev.(agui.TextMessageContent); ok {
			list = append(list, c.Delta)
		}
	}
	return list
}

func TestAgent_StreamsWords(t *testing.T) {
	for query, want := range map[string][]string{
		"hello":                {"hello"},
		"hello world":          {"hello", " world"},
		"  two\n\nlines \t":    {"  two", "\n\nlines", " \t"},
		"schöne\u00a0Grüße 👋🏽": {"schöne", "\u00a0Grüße", " 👋🏽"},
		" ":                    {" "},
		"":                     nil,
	} {
		res := plugintest.Run(t, echo.Agent{}, plugintest.Config{Input: plugins.Input{Query: query}})
		if got := deltas(res); !slices.Equal(got, want) {
			t.Errorf("%q: deltas %q, want %q", query, got, want)
		}
		if got := strings.Join(deltas(res), ""); got != query || res.Output.Answer != query || res.Err != nil {
			t.Errorf("%q: said %q, answered %q, %v", query, got, res.Output.Answer, res.Err)
		}
	}
}

func TestAgent_Replays(t *testing.T) {
	plugintest.Replay(t, echo.Agent{}, plugintest.Config{Input: plugins.Input{Query: "a b"}})
}

func TestStream_PausesBetweenWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := echo.Stream(t.Context(), io.Discard, "one two three", time.Second); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("took %s, want 2s", got)
		}
	})
}

func TestStream_StopsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, why)
		defer cancel()
		var b strings.Builder
		if err := echo.Stream(ctx, &b, "one two three", time.Second); !errors.Is(err, why) || b.String() != "one two" {
			t.Errorf("wrote %q, %v", b.String(), err)
		}
		if err := echo.Stream(ctx, &b, "a b", 0); !errors.Is(err, why) {
			t.Errorf("went on with %v", err)
		}
	})
}

func TestStream_ReturnsWriterError(t *testing.T) {
	r, w := io.Pipe()
	_ = r.Close()
	if err := echo.Stream(t.Context(), w, "a", 0); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}
