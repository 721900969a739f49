package attachments_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/storage/blob"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/attachments"
	"github.com/batonrun/baton/transports/transporttest"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) { transporttest.Main(m) }

// server is a runtime behind a real listener, and a client of it.
type server struct {
	*transporttest.Server
	http *http.Client
}

const size = 100 << 10 // of a file at most

func serve(tb testing.TB, database string, cfg attach.Config) *server {
	tb.Helper()
	return serveFew(tb, database, cfg, 0)
}

// serveFew is serve, with a limit to what a user may have on its way.
func serveFew(tb testing.TB, database string, cfg attach.Config, perUser int) *server {
	tb.Helper()
	cfg.Size = size
	kit := transporttest.Start(tb, transporttest.Config{
		Database: database, Attachments: cfg, Plugins: []plugins.Plugin{opener{}, reader{}, dump{}, dumps},
		Mount: func(s *transporttest.Server) []transports.Mounter {
			return append(transporttest.All(s), attachments.Transport{Uploads: s.Runtime.Uploads, Size: size, PerUser: perUser})
		},
	})
	s := &server{kit, &http.Client{Transport: new(http.Transport), Timeout: transporttest.Patience}}
	tb.Cleanup(s.http.CloseIdleConnections)
	return s
}

// onBoth runs a test with a server on a new database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, s *server)) {
	t.Run("sqlite", func(t *testing.T) { test(t, serve(t, "", attach.Config{})) })
	t.Run("postgres", func(t *testing.T) {
		test(t, serve(t, postgrestest.New(t), attach.Config{}))
	})
}

type answered struct {
	Status int
	Header http.Header
	Body   []byte
}

func (s *server) send(method, path, kind string, body io.Reader) answered {
	s.Helper()
	if strings.HasPrefix(path, "/") {
		path = s.URL + path
	}
	req, err := http.NewRequestWithContext(s.Context(), method, path, body)
	must(s, err)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := s.http.Do(req)
	must(s, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	must(s, err)
	return answered{res.StatusCode, res.Header, raw}
}

// code is what a refusal says.
func (a answered) code() string {
	var p struct{ Code string }
	_ = json.Unmarshal(a.Body, &p)
	return fmt.Sprint(a.Status, " ", p.Code)
}

// file is a part of a form.
type file struct {
	name, filename, kind, content string
}

// form encodes files; one without a filename is a field.
func form(files ...file) (kind string, body *bytes.Buffer) {
	body = new(bytes.Buffer)
	w := multipart.NewWriter(body)
	for _, f := range files {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", fmt.Sprintf(`form-data; name=%q`, f.name))
		if f.filename != "" {
			h.Set("Content-Disposition", multipart.FileContentDisposition(f.name, f.filename))
		}
		if f.kind != "" {
			h.Set("Content-Type", f.kind)
		}
		part, _ := w.CreatePart(h)
		_, _ = io.WriteString(part, f.content)
	}
	_ = w.Close()
	return w.FormDataContentType(), body
}

const uploads = "/api/v1/agent/attachments"

// upload uploads a file, which must be taken.
func (s *server) upload(f file) attachments.Uploaded {
	s.Helper()
	kind, body := form(f)
	a := s.send("POST", uploads, kind, body)
	var up attachments.Uploaded
	if err := json.Unmarshal(a.Body, &up); err != nil || a.Status != http.StatusCreated {
		s.Fatalf("status %d: %s", a.Status, a.Body)
	}
	return up
}

// signed asks where an attachment is.
func (s *server) signed(bucket, path string) answered {
	s.Helper()
	return s.send("GET", uploads+"/signed-url?"+url.Values{"bucket": {bucket}, "path": {path}}.Encode(), "", nil)
}

func (s *server) urlOf(up attachments.Uploaded) string {
	s.Helper()
	a := s.signed(up.Bucket, up.Path)
	var signed attachments.Signed
	if err := json.Unmarshal(a.Body, &signed); err != nil || a.Status != 200 {
		s.Fatalf("status %d: %s", a.Status, a.Body)
	}
	if signed.Bucket != up.Bucket || signed.Path != up.Path || !strings.HasPrefix(signed.URL, s.URL+attach.RawPath+"?") {
		s.Errorf("got %+v", signed)
	}
	return signed.URL
}

const png = "\x89PNG\x0D\x0A\x1A\x0A and so on"

func TestUploadAndItsURL(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *server) {
		for _, c := range []struct {
			file
			kind, filename, disposition string
		}{
			{file{"f", "cat.png", "image/png", png}, "image/png", "cat.png", `inline; filename=cat.png`},
			{file{"f", `C:\dir\notes.md`, "text/markdown", "# Notes"}, "text/markdown", "notes.md", `attachment; filename=notes.md`},
			{file{"f", "../../etc/passwd", "", "root"}, "text/plain", "passwd", `attachment; filename=passwd`},
			{file{"f", "Grüße.txt", "text/plain", "Grüße"}, "text/plain", "Grüße.txt", `attachment; filename*=utf-8''Gr%C3%BC%C3%9Fe.txt`},
			{file{"f", "x.svg", "image/svg+xml", "<svg onload=alert(1)>"}, "text/plain", "x.svg", `attachment; filename=x.svg`},
			{file{"f", "..", "text/html", "no html"}, "text/plain", "file", `attachment; filename=file`},
			{file{"f", "a.pdf", "image/png", "%PDF-1.7"}, "application/pdf", "a.pdf", `attachment; filename=a.pdf`},
		} {
			up := s.upload(c.file)
			if up.MimeType != c.kind || up.Filename != c.filename || up.Bucket != "default" || up.Size != int64(len(c.content)) ||
				!strings.HasPrefix(up.Path, "agent-inputs/local/") {
				t.Errorf("%+v became %+v", c.file, up)
			}
			got := s.send("GET", s.urlOf(up), "", nil)
			kind, _, _ := strings.Cut(got.Header.Get("Content-Type"), ";")
			if string(got.Body) != c.content || got.Status != 200 || kind != c.kind ||
				got.Header.Get("Content-Disposition") != c.disposition || got.Header.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.Contains(got.Header.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("%s: got %d %q %v", c.filename, got.Status, got.Body, got.Header)
			}
		}
	})
}

func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, "", attach.Config{})
	one := file{"f", "a.txt", "", "text"}
	for name, c := range map[string]struct {
		files []file
		want  string
	}{
		"no file":      {[]file{{"f", "", "", "text"}}, "400 one_file"},
		"nothing":      {nil, "400 one_file"},
		"two files":    {[]file{one, one}, "400 one_file"},
		"empty":        {[]file{{"f", "a.txt", "", ""}}, "400 empty_file"},
		"html":         {[]file{{"f", "a.txt", "text/plain", "<!DOCTYPE html><script>"}}, "415 unsupported_media_type"},
		"program":      {[]file{{"f", "a.png", "image/png", "\x7fELF\x02\x01\x01"}}, "415 unsupported_media_type"},
		"said zip":     {[]file{{"f", "a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "PK\x03\x04"}}, "415 unsupported_media_type"},
		"large":        {[]file{{"f", "a.txt", "", strings.Repeat("a", size+1)}}, "413 attachment_too_large"},
		"larger":       {[]file{{"f", "a.txt", "", strings.Repeat("a", 3*size)}}, "413 attachment_too_large"},
		"a large form": {[]file{{"f", "", "", strings.Repeat("a", 3*size)}, one}, "413 form_too_large"},
	} {
		kind, body := form(c.files...)
		if got := s.send("POST", uploads, kind, body).code(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	kind, body := form(one)
	cut := body.Bytes()[:body.Len()-20]
	if got := s.send("POST", uploads, kind, bytes.NewReader(cut)).code(); got != "400 invalid_form" {
		t.Errorf("a form that breaks off: %s", got)
	}
	for _, kind := range []string{"", "application/json", "multipart/form-data", "multipart/mixed; boundary=a", "text/plain"} {
		if got := s.send("POST", uploads, kind, strings.NewReader("{}")).code(); got != "415 unsupported_media_type" {
			t.Errorf("%q: %s", kind, got)
		}
	}
	if up := s.upload(file{"f", "a.txt", "", strings.Repeat("a", size)}); up.Size != size {
		t.Errorf("the largest: %+v", up)
	}
	if up := s.upload(file{"f", "a.txt", "", "b"}); up.Size != 1 {
		t.Errorf("after refusals: %+v", up)
	}
}

// While it is under way an upload counts with its form's length, of which it gives back what is not the file: so of those that
// come at once some may be refused for which there is room when they come again.
func TestQuotaIsTheUsers(t *testing.T) {
	t.Parallel()
	const fit = 3
	for name, cfg := range map[string]attach.Config{"files": {Files: fit}, "bytes": {Bytes: fit*700 + 699}} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "", cfg)
			upload := func() string {
				kind, body := form(file{"f", "a.txt", "", strings.Repeat("a", 700)})
				return s.send("POST", uploads, kind, body).code()
			}
			var wg sync.WaitGroup
			got := make([]string, 10)
			for i := range got {
				wg.Go(func() { got[i] = upload() })
			}
			wg.Wait()
			for range fit {
				got = append(got, upload())
			}
			taken := 0
			for _, code := range got {
				switch code {
				case "201 ":
					taken++
				case "413 quota_exceeded":
				default:
					t.Error(code)
				}
			}
			if taken != fit {
				t.Errorf("%d were taken: %v", taken, got)
			}
			if _, err := s.Runtime.Uploads.Add(t.Context(), runtime.MustCaller("default", "bob", runtime.RoleUser), runtime.Upload{Length: 1, Body: strings.NewReader("x")}); err != nil {
				t.Errorf("another user: %v", err)
			}
		})
	}
}

// TestASignatureIsForWhatItSays takes signed URLs apart.
func TestASignatureIsForWhatItSays(t *testing.T) {
	t.Parallel()
	s := serve(t, "", attach.Config{})
	up, other := s.upload(file{"f", "a.txt", "", "mine"}), s.upload(file{"f", "b.txt", "", "other"})
	at, err := url.Parse(s.urlOf(up))
	must(t, err)
	for name, change := range map[string]func(q url.Values){
		"another path":       func(q url.Values) { q.Set("path", other.Path) },
		"another bucket":     func(q url.Values) { q.Set("bucket", "other") },
		"a later end":        func(q url.Values) { q.Set("expires", "99999999999") },
		"the same, longer":   func(q url.Values) { q.Set("expires", "0"+q.Get("expires")) },
		"no signature":       func(q url.Values) { q.Del("signature") },
		"another signature":  func(q url.Values) { q.Set("signature", strings.Repeat("A", 43)) },
		"moved into another": func(q url.Values) { q.Set("bucket", "default\n"+up.Path); q.Set("path", "") },
		"nothing":            func(q url.Values) { clear(q) },
	} {
		q := at.Query()
		change(q)
		if got := s.send("GET", attach.RawPath+"?"+q.Encode(), "", nil).code(); got != "403 invalid_signature" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := s.send("HEAD", at.String(), "", nil); got.Status != http.StatusForbidden {
		t.Errorf("another method: %d", got.Status)
	}
	if got := s.send("GET", at.String(), "", nil); string(got.Body) != "mine" {
		t.Errorf("as it is: %d %s", got.Status, got.Body)
	}
}

func TestASignatureExpires(t *testing.T) {
	t.Parallel()
	s := serve(t, "", attach.Config{Expires: time.Nanosecond})
	if got := s.send("GET", s.urlOf(s.upload(file{"f", "a.txt", "", "mine"})), "", nil).code(); got != "403 invalid_signature" {
		t.Error(got)
	}
}

// Who has the secret, as from a backup, opens nothing for longer than URLs are good for, and nothing once the secret is reset.
func TestSignedURL_ForgedLastsNoLongerThanOthers(t *testing.T) {
	t.Parallel()
	s := serve(t, "", attach.Config{Expires: time.Hour})
	up := s.upload(file{"f", "a.txt", "", "mine"})
	secret, err := s.Runtime.Secrets.Secret(t.Context(), "attachments")
	must(t, err)
	open := func(until time.Time) string {
		t.Helper()
		expires := strconv.FormatInt(until.Unix(), 10)
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "GET\n%s\n%s\n%s", up.Bucket, up.Path, expires)
		q := url.Values{
			"bucket": {up.Bucket}, "path": {up.Path}, "expires": {expires},
			"signature": {base64.RawURLEncoding.EncodeToString(mac.Sum(nil))},
		}
		return s.send("GET", attach.RawPath+"?"+q.Encode(), "", nil).code()
	}
	for at, want := range map[time.Duration]string{
		time.Hour: "200 ", 2 * time.Hour: "403 invalid_signature", 100 * 365 * 24 * time.Hour: "403 invalid_signature",
	} {
		if got := open(time.Now().Add(at)); got != want {
			t.Errorf("for %v: %s, want %s", at, got, want)
		}
	}
	if got := open(time.Unix(math.MaxInt64, 0)); got != "403 invalid_signature" {
		t.Errorf("for ever: %s", got)
	}
	own := s.urlOf(up)
	must(t, s.Runtime.Secrets.Reset(t.Context()))
	if got := open(time.Now().Add(time.Minute)); got != "403 invalid_signature" {
		t.Errorf("with a secret that was reset: %s", got)
	}
	if got := s.send("GET", own, "", nil).code(); got != "403 invalid_signature" {
		t.Errorf("a URL of before: %s", got)
	}
	if got := s.send("GET", s.urlOf(up), "", nil); string(got.Body) != "mine" {
		t.Errorf("a URL of afterwards: %d %s", got.Status, got.Body)
	}
}

// telling tells when bytes of a blob arrive.
type telling struct {
	attach.Blobs
	got chan int
}

func (b telling) Put(ctx context.Context, key, kind, disposition string, r io.Reader) error {
	return b.Blobs.Put(ctx, key, kind, disposition, readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		b.got <- n
		return n, err
	}))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestAFileIsStoredWhileItComes sends the second half of a file once the first one has been stored, and then a half alone.
func TestAFileIsStoredWhileItComes(t *testing.T) {
	t.Parallel()
	dir := blob.NewDirectory(t.TempDir())
	t.Cleanup(func() { _ = dir.Close() })
	blobs := telling{dir, make(chan int, 1000)}
	s := serve(t, "", attach.Config{Blobs: blobs, Files: 2})
	kind, body := form(file{"f", "a.txt", "", strings.Repeat("a", size)})
	whole := body.Bytes()
	await := func() {
		t.Helper()
		for got := 0; got < size/3; {
			select {
			case n := <-blobs.got:
				got += n
			case <-time.After(transporttest.Patience):
				t.Errorf("%d bytes have arrived", got)
				return
			}
		}
	}
	in, out := io.Pipe()
	go func() { // ends with the request
		_, _ = out.Write(whole[:len(whole)/2])
		await()
		_, _ = out.Write(whole[len(whole)/2:])
		_ = out.Close()
	}()
	if a := s.send("POST", uploads, kind, in); a.Status != http.StatusCreated {
		t.Errorf("%d %s", a.Status, a.Body)
	}

	conn, err := net.Dial("tcp", s.Addr)
	must(t, err)
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", uploads, s.Addr, kind, len(whole))
	_, _ = conn.Write(whole[:len(whole)/2])
	await()
	_ = conn.Close()
	s.Eventually("nothing is reserved for what broke off", func() bool {
		_, err := s.Runtime.Uploads.Add(t.Context(), s.Caller, runtime.Upload{Length: 1, Body: strings.NewReader("b")})
		return err == nil
	})
}

// opener is an agent that says what is in the attachments of the last message.
type opener struct{}

func (opener) Info() plugins.Info { return plugins.Info{Name: "opener"} }

func (opener) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	var said []string
	last, _, err := run.Messages(ctx, 1)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	for _, a := range plugins.Attachments(&last[len(last)-1]) {
		a, data, err := run.Attachment(ctx, a, 10)
		said = append(said, fmt.Sprint(a.Filename, " ", a.MimeType, " ", a.Size, " ", string(data), " ", err))
	}
	return agui.WorkerOutput{Answer: strings.Join(said, "\n")}, nil
}

// TestWorkersOpenAttachments has a worker open its user's attachments, and what a first request's history makes up.
func TestWorkersOpenAttachments(t *testing.T) {
	t.Parallel()
	s := serve(t, "", attach.Config{})
	small, large := s.upload(file{"f", "s.txt", "", "small"}), s.upload(file{"f", "l.txt", "", "too large for it"})
	bobs, err := s.Runtime.Uploads.Add(t.Context(), runtime.MustCaller("default", "bob", runtime.RoleUser), runtime.Upload{Body: strings.NewReader("bob's")})
	must(t, err)
	run := func(last bool, list ...any) string {
		t.Helper()
		metadata, _ := json.Marshal(map[string]any{"attachments": list})
		messages := []agui.Message{{Role: agui.RoleUser, Content: "look", Metadata: metadata}}
		if !last {
			messages = append(messages, agui.Message{Role: agui.RoleAssistant, Content: "yes"}, agui.Message{Role: agui.RoleUser, Content: "and", Metadata: metadata})
			messages[2].Metadata = nil
		}
		started, err := s.Runtime.StartRun(t.Context(), s.Caller, runtime.StartRequest{Agent: "opener", Messages: messages})
		must(t, err)
		s.Await(started.RunID, runtime.Completed)
		got, err := s.Runtime.Runs.Get(t.Context(), s.Caller, started.RunID)
		must(t, err)
		if got.OutputSummary == nil {
			return ""
		}
		return *got.OutputSummary
	}
	got := run(true, small, map[string]any{"path": large.Path, "filename": "made up", "mimeType": "made/up"})
	want := "s.txt text/plain 5 small <nil>\nl.txt text/plain 16  the attachment is too large"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := run(false, map[string]any{"path": bobs.Path}); got != "" {
		t.Errorf("got %q", got)
	}
}
