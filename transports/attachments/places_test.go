package attachments_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/transports/transporttest"
)

// TestWhatStandsAroundAFileIsBounded sends heads and fields that would be read whole.
func TestWhatStandsAroundAFileIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, "", attach.Config{})
	const boundary = "--b\r\n"
	content := "Content-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n"
	large := strings.Repeat("x", 65<<10)
	for name, body := range map[string]string{
		"a field of the head": boundary + "X-Large: " + large + "\r\n" + content + "\r\nhello\r\n--b--\r\n",
		"many of them":        boundary + strings.Repeat("X-Some: y\r\n", 9000) + content + "\r\nhello\r\n--b--\r\n",
		"a filename":          boundary + strings.Replace(content, "a.txt", large, 1) + "\r\nhello\r\n--b--\r\n",
		"a part before":       boundary + "Content-Disposition: form-data; name=\"g\"\r\n\r\n" + large + "\r\n" + boundary + content + "\r\nhello\r\n--b--\r\n",
		"many parts":          strings.Repeat(boundary+"A: b\r\n\r\n\r\n", 5000) + boundary + content + "\r\nhello\r\n--b--\r\n",
		"a part behind":       boundary + content + "\r\nhello\r\n" + boundary + "X-Large: " + large + "\r\n\r\n\r\n--b--\r\n",
	} {
		if got := s.send("POST", uploads, "multipart/form-data; boundary=b", strings.NewReader(body)).code(); got != "413 form_too_large" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	small := boundary + "X: " + large[:60<<10] + "\r\n" + content + "\r\nhello\r\n--b--\r\n"
	if a := s.send("POST", uploads, "multipart/form-data; boundary=b", strings.NewReader(small)); a.Status != http.StatusCreated {
		t.Errorf("what fits: %d %s", a.Status, a.Body)
	}
}

// TestAUserHasSomeFilesOnTheirWay holds up uploads, and sees that their places are free again however they end.
func TestAUserHasSomeFilesOnTheirWay(t *testing.T) {
	t.Parallel()
	s := serveFew(t, "", attach.Config{}, 2)
	text := file{"f", "a.txt", "text/plain", "hello"}
	stalled := func() net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		must(t, err)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n--b\r\n", uploads)
		must(t, err)
		return conn
	}
	attempt := func() string {
		kind, body := form(text)
		return s.send("POST", uploads, kind, body).code()
	}
	until := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(transporttest.Patience); ; <-time.After(5 * time.Millisecond) {
			got := attempt()
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}
	var held []net.Conn
	got := ""
	for len(held) < 200 && got != "429 too_many_transfers" { // an attempt may have the place that a stalled upload would get
		held = append(held, stalled())
		<-time.After(5 * time.Millisecond)
		got = attempt()
	}
	if got != "429 too_many_transfers" || len(held) < 2 {
		t.Errorf("got %s beside %d uploads", got, len(held))
	}
	for _, c := range held {
		_ = c.Close()
	}
	until("201 ")

	up := s.upload(text)
	for range 3 * 4 * 2 { // of eight places
		if a := s.send("GET", s.urlOf(up), "", nil); a.Status != http.StatusOK || string(a.Body) != "hello" {
			t.Fatalf("status %d: %s", a.Status, a.Body)
		}
	}
}
