package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

func TestBearer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target string
		values []string
		want   string // empty for a refusal
	}{
		{"/", []string{"Bearer a.b-c_d~e+f/g=="}, "a.b-c_d~e+f/g=="},
		{"/?projectId=p&ticket=no", []string{"bearer x"}, "x"},
		{"/", []string{"Bearer   x"}, "x"},
		{"/", nil, ""},
		{"/", []string{""}, ""},
		{"/", []string{"Bearer"}, ""},
		{"/", []string{"Bearer "}, ""},
		{"/", []string{"x"}, ""},
		{"/", []string{"Basic x"}, ""},
		{"/", []string{"Bearer x, Bearer y"}, ""},
		{"/", []string{"Bearer x y"}, ""},
		{"/", []string{"Bearer x\x00"}, ""},
		{"/", []string{"Bearer x", "Bearer x"}, ""},
		{"/", []string{"Basic x", "Bearer x"}, ""},
		{"/", []string{"Bearer " + strings.Repeat("x", 15<<10)}, strings.Repeat("x", 15<<10)},
		{"/?access_token=x", []string{"Bearer x"}, ""},
		{"/?token=x", nil, ""},
		{"/?Authorization=Bearer+x", nil, ""},
		{"/?api_key=x", nil, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, c.target, nil)
		for _, v := range c.values {
			r.Header.Add("Authorization", v)
		}
		got, err := auth.Bearer(r)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %q: %q, %v", c.target, c.values, got, err)
		}
		if refusal, ok := errors.AsType[*runtime.Error](err); err != nil && (!ok || refusal.Kind != runtime.KindUnauthorized) {
			t.Errorf("%s %q: %v is no refusal", c.target, c.values, err)
		}
	}
}
