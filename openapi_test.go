package baton_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton"
)

func TestOpenAPI_DescribesMountedRoutes(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]baton.Config{
		"without accounts": {}, "with accounts": {Tuning: baton.Tuning{APIKeys: true}}, "with an admin listener": {Tuning: baton.Tuning{AdminListen: "127.0.0.1:0"}},
	} {
		t.Run(name, func(t *testing.T) { describesItsRoutes(t, cfg) })
	}
}

func describesItsRoutes(t *testing.T, cfg baton.Config) {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	s := open(t, cfg)
	res := send(t, "GET", s.URL()+"/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	must(t, json.NewDecoder(res.Body).Decode(&doc))
	parameter := regexp.MustCompile(`:\w+|{\w+}`) // under any name
	var described, mounted []string
	for path, item := range doc.Paths {
		for method := range item {
			described = append(described, parameter.ReplaceAllString(strings.ToUpper(method)+" "+path, "{}"))
		}
	}
	preflight := send(t, "OPTIONS", s.URL()+"/", "", "Origin", s.URL(), "Access-Control-Request-Method", "PUT")
	methods := strings.Split(preflight.Header.Get("Access-Control-Allow-Methods"), ", ")
	for _, route := range s.Routes() {
		if method, _, _ := strings.Cut(route, " "); !slices.Contains(methods, method) {
			t.Errorf("pages of other origins cannot send %s; they may send %v", route, methods)
		}
		if strings.HasPrefix(route, "HEAD ") { // each GET answers HEAD, too
			continue
		}
		mounted = append(mounted, strings.TrimSuffix(parameter.ReplaceAllString(route, "{}"), "/"))
	}
	slices.Sort(described)
	slices.Sort(mounted)
	if diff := cmp.Diff(mounted, described); diff != "" {
		t.Errorf("mounted (-) and described (+) differ:\n%s", diff)
	}
}
