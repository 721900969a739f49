package attachments_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/attach"
)

// traversals are forms of paths that lead elsewhere, if somebody on their way undoes, cuts or folds something: how one
// climbs, how often, what is between, where from, and to what.
func traversals(mine, bobs string) []string {
	prefix := "agent-inputs/local/"
	name := strings.TrimPrefix(bobs, "agent-inputs/")
	ups := []string{
		"..", ".", "...", "....", ".. ", " ..", "..\t", "..%20", "..\x00", "..%00", "%2e%2e", "%2E%2e", ".%2e", "%2e.", "%252e%252e", "%25252e%25252e",
		"%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae", "%uff0e%uff0e", "．．", "‥", "%ef%bc%8e%ef%bc%8e", "..;", "..;x=1", "..%3b", "..#", "..?", "..%0d%0a", "..%5c..", "",
	}
	slashes := []string{"/", "//", `\`, `\\`, "%2f", "%2F", "%252f", "%5c", "%5C", "%255c", "%c0%af", "%e0%80%af", "／", "∕", "⧵", "%u2215"}
	var list []string
	for _, up := range ups {
		for _, slash := range slashes {
			list = append(list, prefix+up+slash+name, prefix+strings.Repeat(up+slash, 3)+"etc/passwd")
		}
	}
	list = append(list, []string{
		bobs, "/" + mine, "./" + mine, mine + "/", mine + "/.", mine + "/..", mine + ".", mine + " ", mine + "\x00", mine + "%00", mine + "%00.png",
		mine + "::$DATA", mine + "/../" + strings.TrimPrefix(mine, prefix), `agent-inputs\local\x`, "agent-inputs//local/x", "agent-inputs/./local/x",
		"agent-inputs/LOCAL/x", "agent-inputs/local%2fx", "agent-inputs%2flocal%2fx", "agent-inputs/loca%6c/x", "default/" + mine,
		"../default/" + mine, "file:///etc/passwd", "/etc/passwd", `C:\Windows\win.ini`, `\\host\share`, "~root/.ssh/id_rsa", "http://127.0.0.1/", "s3://bucket/key",
		"con", "nul", "agent-inputs/*/x", "agent-inputs/local/*", "agent-inputs/%/x", prefix + "%", prefix + "%2", prefix + "%zz", prefix + "'; DROP TABLE attachments; --",
		prefix + strings.Repeat("a", 5000), prefix + strings.Repeat("../", 500), prefix + "\xff\xfe", prefix + "a\nb", prefix + ".arriving/x", prefix + ".hidden", "", " ", ".", "..", "/", "%", "\x00",
	}...)
	slices.Sort(list)
	return slices.Compact(list)
}

// TestNoPathLeadsElsewhere tries every form on each route: as the value of a parameter, encoded and as it stands, in the
// address, and as the name of an upload.
func TestNoPathLeadsElsewhere(t *testing.T) {
	t.Parallel()
	s := serve(t, "", attach.Config{Files: 10_000})
	mine := s.upload(file{"f", "mine.txt", "", "mine"})
	bobs, err := s.Runtime.Uploads.Add(t.Context(), runtime.MustCaller("default", "bob", runtime.RoleUser), runtime.Upload{Body: strings.NewReader("bob's secret")})
	must(t, err)
	signed, err := url.Parse(s.urlOf(mine))
	must(t, err)
	forms := traversals(mine.Path, bobs.Path)
	if len(forms) < 500 {
		t.Fatalf("only %d forms", len(forms))
	}
	conn := newRawClient(t, s.Addr)
	defer conn.close()
	judge := func(form, how string, status int, body string) {
		t.Helper()
		if status < 400 || status >= 500 || strings.Contains(body, "secret") || strings.Contains(body, "root:") || strings.Contains(body, "signature=") {
			t.Errorf("%q %s: %d %.200s", form, how, status, body)
		}
	}
	for _, form := range forms {
		a := s.signed("default", form)
		judge(form, "as a path", a.Status, string(a.Body))
		if !attach.Inside("local", form) && form != "" && a.Status != http.StatusForbidden {
			t.Errorf("%q: %s, want 403 whether or not it is there", form, a.code())
		}
		a = s.signed(form, mine.Path)
		judge(form, "as a bucket", a.Status, string(a.Body))
		q := signed.Query()
		q.Set("path", form)
		a = s.send("GET", attach.RawPath+"?"+q.Encode(), "", nil)
		judge(form, "under another's signature", a.Status, string(a.Body))

		plain := strings.NewReplacer(" ", "+", "\n", "", "\r", "", "\t", "", "\x00", "%00", "#", "%23").Replace(form)
		for _, target := range []string{
			uploads + "/signed-url?bucket=default&path=" + plain, uploads + "/" + plain, attach.RawPath + "/" + plain,
		} {
			status, body := conn.get(target)
			judge(form, "in "+target[:min(60, len(target))], status, body)
		}
	}
	prefix := "agent-inputs/local/"
	seen := map[string]bool{}
	for i, form := range forms {
		if i%4 > 0 || strings.ContainsAny(form, "\n\r\x00") || len(form) > 1000 {
			continue // which no form's header holds
		}
		up := s.upload(file{"f", form + "x", "", "uploaded"})
		id := strings.TrimPrefix(up.Path, prefix)
		if !strings.HasPrefix(up.Path, prefix) || strings.ContainsAny(id, `/\%`) || strings.ContainsAny(up.Filename, `/\`) || seen[id] {
			t.Fatalf("%q became %+v", form, up)
		}
		seen[id] = true
	}
	if a := s.signed("default", mine.Path); a.Status != http.StatusOK {
		t.Errorf("the own one: %d %s", a.Status, a.Body)
	}
}

// rawClient sends targets as they stand, which net/http would not.
type rawClient struct {
	t    *testing.T
	addr string
	conn net.Conn
	in   *bufio.Reader
}

func newRawClient(t *testing.T, addr string) *rawClient {
	t.Helper()
	return &rawClient{t: t, addr: addr}
}

func (c *rawClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// get returns the status and the body of the answer, in which a connection may end.
func (c *rawClient) get(target string) (int, string) {
	c.t.Helper()
	for range 2 {
		if c.conn == nil {
			conn, err := net.Dial("tcp", c.addr)
			must(c.t, err)
			c.conn, c.in = conn, bufio.NewReader(conn)
		}
		_, _ = fmt.Fprintf(c.conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, c.addr)
		res, err := http.ReadResponse(c.in, nil)
		if err != nil { // the one before it has ended the connection
			c.close()
			continue
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.Close {
			c.close()
		}
		return res.StatusCode, string(body)
	}
	c.t.Fatalf("no answer to %q", target)
	return 0, ""
}
