package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/tools"
)

func call(t *testing.T, tool plugins.Tool, args any) (summary, code string) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tool.Call(t.Context(), &plugins.Call{ID: "1", Args: raw})
	if err == nil {
		return out.ResultSummary, ""
	}
	shown, ok := errors.AsType[*plugins.Error](err)
	if !ok {
		t.Fatalf("%s: %v is no *plugins.Error", tool.Info().Name, err)
	}
	return shown.Message, shown.Code
}

func TestCalculator_Computes(t *testing.T) {
	for expression, want := range map[string]string{
		"1":                 "1",
		" 1 + 2 * 3 ":       "7",
		"(1+2)*3":           "9",
		"7-3-2":             "2",
		"8/4/2":             "1",
		"10/4":              "2.5",
		"0.1+0.2":           "0.3",
		"2^3^2":             "512",
		"-2^2":              "-4",
		"2^-1":              "0.5",
		"--3":               "3",
		"+3":                "3",
		"7%4":               "3",
		"5 % 0.75":          "0.5",
		"0*-1":              "0",
		"1000000*1000000":   "1000000000000",
		".5":                "0.5",
		"1/3":               "0.333333333333333",
		"2\t*\n3":           "6",
		"99999999999999999": "1e+17",
		"1e9 * 2":           "2000000000",
	} {
		if got, code := call(t, tools.Calculator{}, map[string]string{"expression": expression}); got != want || code != "" {
			t.Errorf("%q = %q %s, want %q", expression, got, code, want)
		}
	}
}

func TestCalculator_RefusesInvalidExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		"":                         "bad_expression",
		"1+":                       "bad_expression",
		"(1":                       "bad_expression",
		"1)":                       "bad_expression",
		"1 2":                      "bad_expression",
		"1..2":                     "bad_expression",
		".":                        "bad_expression",
		"2 > 1":                    "bad_expression",
		"not true":                 "bad_expression",
		"let x = 1; x":             "bad_expression",
		"1; 2":                     "bad_expression",
		"abs(-1)":                  "bad_expression",
		"[1, 2]":                   "bad_expression",
		"true ? 1 : 2":             "bad_expression",
		"- (2 > 1)":                "bad_expression",
		"1 + (-1)[0]":              "bad_expression",
		"os.exit":                  "bad_expression",
		`"a"+"b"`:                  "bad_expression",
		"1..1000000000":            "bad_expression",
		strings.Repeat("(", 500):   "bad_expression",
		strings.Repeat("-", 500):   "bad_expression",
		strings.Repeat("1+", 1000): "bad_expression",
		"1/0":                      "arithmetic",
		"1%0":                      "arithmetic",
		"0/0":                      "arithmetic",
		"10^400":                   "arithmetic",
		"(-1)^0.5":                 "arithmetic",
		strings.Repeat("9", 400):   "bad_expression",
		"1e400":                    "bad_expression",
	} {
		if message, code := call(t, tools.Calculator{}, map[string]string{"expression": expression}); code != want || message == "" {
			t.Errorf("%.20q: %q %s, want %s", expression, message, code, want)
		}
	}
}

func TestSleep_StopsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if got, _ := call(t, tools.Sleep{}, map[string]int{"ms": 8000}); got != "slept 8000 ms" || time.Since(start) != 8*time.Second {
			t.Errorf("%q after %s", got, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(plugins.ErrCancelled) })
		start = time.Now()
		_, err := tools.Sleep{}.Call(ctx, &plugins.Call{Args: []byte(`{"ms": 8000}`)})
		if !errors.Is(err, plugins.ErrCancelled) || time.Since(start) != time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestStubborn_IgnoresContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		out, err := tools.Stubborn{}.Call(ctx, &plugins.Call{Args: []byte(`{"ms": 8000}`)})
		if err != nil || out.ResultSummary != "slept 8000 ms" || time.Since(start) != 8*time.Second {
			t.Errorf("%q, %v after %s", out.ResultSummary, err, time.Since(start))
		}
	})
}

func TestClock_ReturnsUTC(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)) }
	if got, _ := call(t, tools.Clock{Now: now}, struct{}{}); got != "2026-01-02T02:04:05Z" {
		t.Errorf("got %s", got)
	}
	got, _ := call(t, tools.Clock{}, struct{}{})
	if at, err := time.Parse(time.RFC3339, got); err != nil || time.Since(at) > time.Minute {
		t.Errorf("got %s", got)
	}
}

func TestFail_Fails(t *testing.T) {
	if message, code := call(t, tools.Fail{}, map[string]string{"message": "boom"}); message != "boom" || code != "failed" {
		t.Errorf("%q %s", message, code)
	}
}

func TestTools_RefuseInvalidArguments(t *testing.T) {
	for _, tool := range []plugins.Tool{tools.Sleep{}, tools.Stubborn{}, tools.Calculator{}, tools.Fail{}} {
		if _, code := call(t, tool, "text"); code != "bad_arguments" {
			t.Errorf("%s: code %q", tool.Info().Name, code)
		}
	}
	for _, ms := range []int{-1, 3600001} {
		if _, code := call(t, tools.Sleep{}, map[string]int{"ms": ms}); code != "bad_arguments" {
			t.Errorf("%d ms: code %q", ms, code)
		}
	}
}
