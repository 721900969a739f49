package transports_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/batonrun/baton/transports"
)

// raw sends a request as it stands, all but the empty line, and returns the answer's status.
func (s *server) raw(request string) int {
	s.Helper()
	_, in := s.dial(request + "\r\n\r\n")
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		s.Fatalf("%q: %v", request, err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// A target can name a host, and fasthttp believes it more than it should.
func TestHostIsJudgedAsItWasSent(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Hosts: []string{"baton.example"}})
	for _, test := range []struct {
		target, header string
		want           int
	}{
		{"//127.0.0.1/ok?x=://", "Host: evil.example", 400},
		{"//localhost/ok?x=://", "Host: localhost", 400},
		{"///ok", "Host: localhost", 400},
		{"http://127.0.0.1/ok", "Host: evil.example", 400},
		{"http://evil.example/ok", "Host: localhost", 400},
		{"http://localhost@evil.example/ok", "Host: localhost", 400},
		{"http://evil.example?x=http://localhost/ok", "Host: localhost", 400},
		{"ftp://localhost/ok", "Host: localhost", 400},
		{"*", "Host: localhost", 400},
		{"http:///ok", "Host: localhost", 400},
		{"/ok", "Host: localhost@evil.example", 421},
		{"/ok", "Host: evil.example@localhost", 421},
		{"/ok", "Host: localhost/evil.example", 400},
		{"//localhost:3000/ok?x=://", "Host: localhost\r\nOrigin: http://localhost:3000", 400},
		{"http://localhost:3000/ok", "Host: localhost\r\nOrigin: http://localhost:3000", 400},
		{"http://localhost/ok", "Host: localhost", 200},
		{"HTTP://Baton.Example:80/ok", "Host: baton.example:80", 200},
		{"http://localhost/ok", "Host: localhost\r\nOrigin: http://localhost", 200},
		{"/ok?x=//127.0.0.1/api?y=://", "Host: localhost", 200},
		{"/ok?x=://", "Host: evil.example", 421},
		{"/ok#//x://", "Host: localhost", 200},
		{"/nowhere//ok?x=://", "Host: localhost", 404},
	} {
		got := s.raw(fmt.Sprintf("GET %s HTTP/1.1\r\n%s\r\nConnection: close", test.target, test.header))
		if got != test.want {
			t.Errorf("%s, %q: got %d, want %d", test.target, test.header, got, test.want)
		}
	}
	if got := s.raw("GET //127.0.0.1/ok HTTP/1.0"); got != 400 {
		t.Errorf("without a Host: got %d", got)
	}
}

// An unknown method is refused like any other invalid request.
func TestUnknownMethodsAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	for _, method := range []string{"GGGG", "get", "PRI"} {
		_, in := s.dial(method + " /ok HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		var problem transports.Problem
		err = json.NewDecoder(resp.Body).Decode(&problem)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusNotImplemented || problem.Code != "not_implemented" || problem.Detail == "" {
			t.Errorf("%s: %s, %+v, %v", method, resp.Status, problem, err)
		}
	}
}
