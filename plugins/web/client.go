// Package web has what plugins need to ask other servers over HTTP: a client, and a reader of the bodies of responses as they are, whatever
// their headers say: compressed without being asked, behind a byte order mark, without end, or of another type than declared.
package web

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// ErrRedirect is the error of a request that is redirected to another host, or so that it would be another request.
var ErrRedirect = errors.New("it redirects to another host, which is not followed")

// NewClient returns a copy of given, or of a client with its own connections, that follows only redirects to the same host that
// preserve the request.
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
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    16,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme || req.Method != first.Method || len(via) > 3 {
			return ErrRedirect
		}
		return nil
	}
	return c
}
