package cmd_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOpenAPIHasTheRoutesThatAreMounted(t *testing.T) {
	s := serve(t, database(t))
	res, err := http.Get(s.URL() + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`:\w+|{\w+}`) // under whatever name
	var described, mounted []string
	for path, item := range doc.Paths {
		for method := range item {
			described = append(described, parameter.ReplaceAllString(strings.ToUpper(method)+" "+path, "{}"))
		}
	}
	for _, route := range s.Routes() {
		if strings.HasPrefix(route, "HEAD ") { // each GET answers it too
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
