package cmd

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a server that returns give(n) to its n-th request, counted from 1, and records the times of requests.
type answers struct {
	give  func(n int) *http.Response
	asked []time.Time
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.asked = append(a.asked, time.Now())
	return a.give(len(a.asked)), nil
}

func answer(status int, body string, header ...string) *http.Response {
	res := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		res.Header.Set(header[i], header[i+1])
	}
	return res
}

func following(a *answers) *remote {
	r := newRemote(&http.Client{Transport: a}, target{url: "http://server"})
	r.runID = "r"
	return r
}

const finished = "id: 7\ndata: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\",\"timestamp\":1}\n\n"

// If a server ends each stream immediately, the client reconnects with growing pauses, and gives up.
func TestRemote_BacksOffFromEmptyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{give: func(int) *http.Response { return answer(http.StatusOK, ": ping\n\n") }}
		began := time.Now()
		if _, err := following(a).next(t.Context()); err == nil || !strings.Contains(err.Error(), "repeatedly ends") {
			t.Errorf("next fails with %v", err)
		}
		if n, took := len(a.asked), time.Since(began); n > 50 || took > restartTimeout || took < restartTimeout/2 {
			t.Errorf("%d requests in %s", n, took)
		}
	})
}

// Each event resets the limit.
func TestRemote_FollowsStreamWithManyReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const some = 200
		a := &answers{give: func(n int) *http.Response {
			body := strings.Replace(finished, "id: 7", "id: "+strconv.Itoa(n), 1)
			if n < some {
				body = strings.ReplaceAll(body, `"r"`, `"other"`)
			}
			return answer(http.StatusOK, body)
		}}
		if ev, err := following(a).next(t.Context()); err != nil || !ev.ends() || len(a.asked) != some {
			t.Errorf("after %d connections: %v", len(a.asked), err)
		}
	})
}

func TestRemote_HonorsRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{give: func(n int) *http.Response {
			if n == 1 {
				return answer(http.StatusServiceUnavailable, `{"detail":"starting"}`, "Retry-After", "7")
			}
			return answer(http.StatusOK, finished)
		}}
		if ev, err := following(a).next(t.Context()); err != nil || !ev.ends() {
			t.Fatal(err)
		}
		if waited := a.asked[1].Sub(a.asked[0]); waited != 7*time.Second {
			t.Errorf("the client retried after %s", waited)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := &answers{give: func(int) *http.Response {
			return answer(http.StatusTooManyRequests, `{"detail":"no more today"}`, "Retry-After", "86400")
		}}
		began := time.Now()
		if _, err := following(a).next(t.Context()); err == nil || !strings.Contains(err.Error(), "no more today") || time.Since(began) > 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
