package problem_test

import (
	"net/url"
	"testing"

	"github.com/batonrun/baton/plugins/problem"
)

// A server's results lose the credentials wherever the configuration has them, and nothing else; its errors lose every value.
func TestSecrets(t *testing.T) {
	u, err := url.Parse("https://me:url-password@example.com/mcp/s/f00d-0123456789abcdef/long-name-of-a-service?api_key=query-key&region=eu-central")
	if err != nil {
		t.Fatal(err)
	}
	s := problem.NewSecrets(
		map[string]string{"Authorization": "Bearer head-token", "X-Api-Key": `a "quoted" key`, "Accept": "application/json", "Cookie": "1234567890"},
		map[string]string{"GITHUB_TOKEN": "environment-token", "ROOT": "/srv/documents", "PASSWORD": "short"}, u)
	for data, want := range map[string]string{
		`{"text":"Authorization: Bearer head-token"}`:                                         `{"text":"Authorization: ***"}`,
		`["the head-token", "a \"quoted\" key", "é"]`:                                         `["the ***", "***", "é"]`,
		`{"environment-token":["url-password"]}`:                                              `{"***":["***"]}`,
		`"/mcp/s/f00d-0123456789abcdef?api_key=query-key"`:                                    `"/mcp/s/***?api_key=***"`,
		`{"n":1234567890,"s":"1234567890"}`:                                                   `{"n":1234567890,"s":"***"}`,
		`["application/json","/srv/documents","short","long-name-of-a-service","eu-central"]`: `["application/json","/srv/documents","short","long-name-of-a-service","eu-central"]`,
	} {
		if got := string(s.HideCredentials([]byte(data))); got != want {
			t.Errorf("%s became %s, want %s", data, got, want)
		}
	}
	if got := s.Hide("application/json in /srv/documents of long-name-of-a-service in eu-central, head-token"); got != "*** in *** of *** in ***, ***" {
		t.Error(got)
	}
}
