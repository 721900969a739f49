// Package web has what plugins need to ask other servers over HTTP: a client, and a reader of the bodies of responses as they are, whatever
// their headers say: compressed without being asked, behind a byte order mark, without end, or of another type than declared.
package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Address parses the URL of a server. Its error is without the URL, which can have secrets.
func Address(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("is invalid")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("must begin with http:// or https:// and a host")
	}
	return u, nil
}

// CheckHeaders fails if HTTP does not allow one of the headers.
func CheckHeaders(headers map[string]string) error {
	outside := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }
	for name, value := range headers {
		if name == "" || strings.ContainsFunc(name, outside) || strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("header %q: invalid name or value", name)
		}
	}
	return nil
}

// Redirect is the error of a redirect that is not followed.
type Redirect struct {
	To   *http.Request
	Loop bool // it was one of many, none of which led to another host or would have been another request
}

func (r *Redirect) Error() string {
	if r.Loop {
		return "it redirects again and again"
	}
	return "it redirects to another host or with another method, which is not followed"
}

// maxRedirects limits the redirects of a request.
const maxRedirects = 3

// NewClient returns a copy of given, or of a client with its own connections, that follows only redirects to the same host that
// preserve the request, and has no time limit but the contexts of requests.
func NewClient(given *http.Client) *http.Client {
	c := new(http.Client)
	if given != nil {
		*c = *given
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			IdleConnTimeout:        30 * time.Second,
			DisableCompression:     true, // compressed streams arrive in bursts
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    100, // crowds reuse them between their turns
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	c.Timeout = 0
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme || req.Method != first.Method {
			return &Redirect{To: req}
		}
		if len(via) > maxRedirects {
			return &Redirect{To: req, Loop: true}
		}
		return nil
	}
	return c
}
