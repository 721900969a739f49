package transports_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
)

// answered reads the answers that come over a connection until it is closed, as statuses and bodies.
func answered(t *testing.T, in *bufio.Reader) (statuses []int, last string) {
	t.Helper()
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			refused := errors.Is(err, syscall.ECONNRESET) && len(statuses) > 0 // with what it still sends, as RFC 9112 has it in 9.6
			if !refused && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			return statuses, last
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		must(t, err)
		statuses, last = append(statuses, resp.StatusCode), string(body)
	}
}

// until polls until ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A head costs its sender nothing, so an announced length must cost the server nothing.
func TestNothingIsKeptForWhatIsOnlyAnnounced(t *testing.T) {
	s := serve(t, transports.Config{})
	heap := func() int {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	var all []net.Conn
	for range 50 {
		c, _ := s.dial("POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 33554432\r\n\r\n{")
		all = append(all, c)
	}
	until(t, "the heads have arrived", func() bool { return s.Streams.Budget.Used() >= 50<<10 })
	if cost := heap() - before; cost > 50*128<<10 {
		t.Errorf("50 heads cost %d bytes", cost)
	}
	for _, c := range all {
		_ = c.Close()
	}
	until(t, "nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
}

func TestHeadsAreJudgedBeforeTheirBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Accounts: auth.AuthenticatorFunc(func(r *http.Request) (auth.Identity, error) {
		if r.Header.Get("Authorization") == "" {
			return auth.Identity{}, errors.New("nobody")
		}
		return auth.Identity{Projects: []string{"default"}, User: "u", Role: runtime.RoleUser}, nil
	})})
	for _, test := range []struct {
		path, header string
		want         int
	}{
		{"/small", "Host: evil.example", 421},
		{"/small", "Host: localhost\r\nOrigin: http://evil.example", 403},
		{"/small", "Host: localhost", 401},
		{"/nowhere", "Host: localhost\r\nAuthorization: x", 404},
		{"/ok", "Host: localhost\r\nAuthorization: x", 405},
		{"/api/v1/agent/runs", "Host: localhost\r\nAuthorization: x\r\nContent-Type: text/plain", 415},
		{"/small", "Host: localhost\r\nAuthorization: x\r\nContent-Type: application/json", 413},
	} {
		for _, expect := range []string{"", "\r\nExpect: 100-continue"} {
			_, in := s.dial(fmt.Sprintf("POST %s HTTP/1.1\r\n%s%s\r\nContent-Length: 33554432\r\n\r\n", test.path, test.header, expect))
			if got, _ := answered(t, in); len(got) != 1 || got[0] != test.want {
				t.Errorf("%+v: got %v", test, got)
			}
		}
	}
}

func TestBodiesEndWhereTheySay(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	const post = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	const hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const next = "GET /ok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\nTrailer: x\r\n\r\n", len(hidden), hidden)
	for _, test := range []struct {
		name, request string
		want          []int
		last          string
	}{
		{"a body, and a request", fmt.Sprintf(post, "/small") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(hidden)) + hidden + next, []int{200, 200}, `"ok"`},
		{"chunks, and a request", fmt.Sprintf(post, "/small") + "Transfer-Encoding: chunked\r\n\r\n" + chunked + next, []int{200, 200}, `"ok"`},
		{"a body nobody reads, and a request", fmt.Sprintf(post, "/nowhere") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(hidden)) + hidden + next, []int{404, 200}, `"ok"`},
		{"chunks nobody reads", fmt.Sprintf(post, "/nowhere") + "Transfer-Encoding: chunked\r\n\r\n" + chunked + next, []int{404}, ""},
		{"a body nobody reads of which a part is here", fmt.Sprintf(post, "/nowhere") + "Content-Length: 9999\r\n\r\n" + hidden + next, []int{404}, ""},
		{"a body of a GET", fmt.Sprintf(post, "/ok")[4:] + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(hidden)) + hidden + next, []int{400}, ""},
		{"a method that is none", "FOO /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n" + hidden, []int{501}, ""},
		{"a head that lies of our own header", "GET /ok HTTP/1.1\r\nHost: localhost\r\nBaton-Body: 50\r\n\r\n" + next, []int{200, 200}, `"ok"`},
		{"a head whose last line ends in another way", fmt.Sprintf(post, "/small") + "Content-Length: 2\r\n\n" + hidden + "{}" + next, []int{400}, ""},
		{"a head with a line that does", fmt.Sprintf(post, "/small") + "Content-Length: 2\n\r\n" + hidden + "{}" + next, []int{400}, ""},
		{"a head of such lines", strings.ReplaceAll(fmt.Sprintf(post, "/small")+"Content-Length: 2\r\n\r\n", "\r", "") + hidden + "{}" + next, []int{400}, ""},
		{"too much", fmt.Sprintf(post, "/small") + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 3<<20, strings.Repeat("x", 3<<20)), []int{413}, ""},
		{"chunks that are none", fmt.Sprintf(post, "/small") + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + next, []int{400}, ""},
		{"a trailer without end", fmt.Sprintf(post, "/small") + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("x: y\r\n", 2000), []int{400}, ""},
	} {
		for _, step := range []int{len(test.request), 1000, 7} {
			if step < 1000 && len(test.request) > 2000 {
				continue
			}
			c, in := s.dial("")
			go func() { // ends with the connection
				for from := 0; from < len(test.request); from += step {
					if _, err := io.WriteString(c, test.request[from:min(from+step, len(test.request))]); err != nil {
						return
					}
				}
			}()
			got, last := answered(t, in)
			if fmt.Sprint(got) != fmt.Sprint(test.want) && (step == len(test.request) || test.name != "a body nobody reads, and a request") ||
				test.last != "" && len(got) == len(test.want) && last != test.last {
				t.Errorf("%s, in steps of %d: got %v %s, want %v", test.name, step, got, last, test.want)
			}
		}
	}
}

func TestWordToSendIsGivenOnlyToWhomIsAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	const head = "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nExpect: 100-continue\r\n"
	for framing, body := range map[string]string{"Content-Length: 2": "{}", "Transfer-Encoding: chunked": "2\r\n{}\r\n0\r\n\r\n"} {
		c, in := s.dial(head + framing + "\r\n\r\n")
		line, err := in.ReadString('\n')
		if empty, _ := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" || empty != "\r\n" {
			t.Fatalf("got %q, %q, %v", line, empty, err)
		}
		_, _ = io.WriteString(c, body)
		if got, last := answered(t, in); fmt.Sprint(got) != "[200]" || last != "2" {
			t.Errorf("got %v %s", got, last)
		}
	}
}

// Senders of large bodies may not have the whole budget, and those of small ones are served when they have all they may.
func TestBytesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	s := serveWith(t, transports.Config{}, transports.StreamConfig{InFlight: 6 << 20})
	const head = "POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
	size := 1500 << 10
	half := strings.Repeat(" ", size-1)
	held := func(bodies int) func() bool { // and no buffer that grows, which counts twice for a moment
		return func() bool { return s.Streams.Budget.Used()/(20<<10) == int64(bodies*size)/(20<<10) }
	}
	first, in := s.dial(fmt.Sprintf("%s%d\r\n\r\n%s", head, size, half))
	until(t, "a body is held", held(1))
	second, _ := s.dial(fmt.Sprintf("%s%d\r\n\r\n%s", head, size, half))
	until(t, "two bodies are held", held(2))
	big := s.do("POST", "/api/v1/agent/runs", bytes.NewReader(make([]byte, size)), "Content-Type", "application/json")
	s.refused(big, 503, "overloaded")
	if big.header.Get("Retry-After") == "" {
		t.Error("it does not say when to come again")
	}
	if a := s.do("POST", "/small", strings.NewReader("{}"), "Content-Type", "application/json"); a.status != 200 {
		t.Errorf("a small body: got %d %s", a.status, a.body)
	}
	_ = second.Close()
	until(t, "one body is held", func() bool { return s.Streams.Budget.Used() < int64(2*size) }) // the other one counts twice once it is whole
	_, _ = io.WriteString(first, " ")
	if got, _ := answered(t, in); fmt.Sprint(got) != "[200]" {
		t.Errorf("got %v", got)
	}
	until(t, "nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
	if a := s.do("POST", "/api/v1/agent/runs", bytes.NewReader(make([]byte, size)), "Content-Type", "application/json"); a.status != 200 {
		t.Errorf("afterwards: got %d %s", a.status, a.body)
	}
}

// Small messages take many times their size once decoded.
func TestSmallMessagesAreNotSmall(t *testing.T) {
	t.Parallel()
	s := serveWith(t, transports.Config{}, transports.StreamConfig{InFlight: 6 << 20})
	post := func(each string) answer {
		body := `{"messages": [` + strings.TrimSuffix(strings.Repeat(each+", ", (256<<10)/len(each)), ", ") + `]}`
		return s.do("POST", "/api/v1/agent/runs", strings.NewReader(body), "Content-Type", "application/json")
	}
	const message = `{"role": "user", "content": "%s"}`
	s.refused(post(fmt.Sprintf(message, "x")), 503, "overloaded")
	if a := post(fmt.Sprintf(message, strings.Repeat("x", 1<<10))); a.status != 200 {
		t.Errorf("as much in fewer messages: got %d %s", a.status, a.body)
	}
	until(t, "nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
}

func TestSlowSendersAreGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg   transports.Config
		every time.Duration // 0 for never
	}{
		"nothing more comes":     {transports.Config{Slack: 300 * time.Millisecond}, 0},
		"less than the rate":     {transports.Config{Slack: 300 * time.Millisecond, Rate: 1000}, 20 * time.Millisecond},
		"the whole takes long":   {transports.Config{ReadTimeout: 300 * time.Millisecond, Rate: 1}, 20 * time.Millisecond},
		"the head does not come": {transports.Config{HeadTimeout: 300 * time.Millisecond}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, test.cfg)
			head := "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"
			if test.every < 0 {
				head = head[:50]
			}
			c, in := s.dial(head)
			if test.every > 0 {
				go func() { // ends with the connection
					for {
						if _, err := io.WriteString(c, " "); err != nil {
							return
						}
						<-time.After(test.every)
					}
				}()
			}
			if got, last := answered(t, in); fmt.Sprint(got) != "[408]" || !strings.Contains(last, "request_timeout") {
				t.Errorf("got %v %s", got, last)
			}
		})
	}
}

// Clients open connections before they need them, and a busy one writes its request much later.
func TestConnectionsMayWaitForTheirFirstRequest(t *testing.T) {
	t.Parallel()
	const head = 100 * time.Millisecond
	s := serve(t, transports.Config{HeadTimeout: head})
	c, in := s.dial("")
	<-time.After(5 * head)
	_, _ = io.WriteString(c, "GET /ok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if got, last := answered(t, in); fmt.Sprint(got) != "[200]" {
		t.Errorf("got %v %s", got, last)
	}
}

// slow has routes that take their time.
type slow struct {
	left chan string
	size int
}

func (s slow) Routes() []transports.Route {
	return []transports.Route{
		{Method: "GET", Path: "/large", Known: func(c *fiber.Ctx, _ runtime.Caller) error {
			return c.SendString(strings.Repeat("x", s.size))
		}},
		{Method: "GET", Path: "/waits", Known: func(c *fiber.Ctx, _ runtime.Caller) error {
			s.left <- ""
			<-c.UserContext().Done()
			s.left <- c.UserContext().Err().Error()
			return fmt.Errorf("read: %w", c.UserContext().Err()) // as a database says it
		}},
	}
}

func TestAnswersTakeRoomUntilTheyAreRead(t *testing.T) {
	t.Parallel()
	s := serveWith(t, transports.Config{Slack: time.Minute}, transports.StreamConfig{InFlight: 80 << 20}, slow{size: 40 << 20})
	c, _ := s.dial("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
	until(t, "the answer is held", func() bool { return s.Streams.Budget.Used() >= 40<<20 })
	s.refused(s.do("GET", "/large", nil), 503, "overloaded")
	_ = c.Close()
	until(t, "nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
	if a := s.do("GET", "/large", nil); len(a.body) != 40<<20 {
		t.Errorf("afterwards: got %d, %d bytes", a.status, len(a.body))
	}
}

func TestSlowTakersAreGivenUp(t *testing.T) {
	t.Parallel()
	s := serveWith(t, transports.Config{Slack: 300 * time.Millisecond}, transports.StreamConfig{}, slow{size: 40 << 20})
	_, in := s.dial("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := in.Peek(1); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
	if n, _ := io.Copy(io.Discard, in); n >= 40<<20 {
		t.Errorf("read %d bytes after the time for them", n)
	}
}

// echoing answers with its input, and counts its answers.
type echoing struct{ did *atomic.Int64 }

func (e echoing) Routes() []transports.Route {
	return []transports.Route{{Method: "POST", Path: "/echo", Echoes: true, Known: func(c *fiber.Ctx, _ runtime.Caller) error {
		e.did.Add(1)
		return c.JSON(string(c.Request().Body()))
	}}}
}

// A request whose answer has no room must have no effect.
func TestRoomIsTakenBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	e := echoing{new(atomic.Int64)}
	s := serveWith(t, transports.Config{}, transports.StreamConfig{InFlight: 8 << 20}, e)
	var body string
	echo := func() answer {
		return s.do("POST", "/echo", strings.NewReader(body), "Content-Type", "application/json")
	}
	others := s.Streams.Budget.Hold()
	statuses := make(map[int]int)
	try := func(beside int) {
		_ = others.Resize(beside)
		before := e.did.Load()
		a := echo()
		if did := e.did.Load() > before; did != (a.status == 200) {
			t.Errorf("beside %d bytes: got %d, done: %t", beside, a.status, did)
		}
		statuses[a.status]++
		until(t, "the answer is not held any more", func() bool { return s.Streams.Budget.Used() == int64(beside) })
	}
	const most = 7 << 20
	for _, body = range []string{
		`"` + strings.Repeat("<>&", 300<<10) + `"`,
		`"` + strings.Repeat("\u2028", 100_000) + `"`,
		`"` + strings.Repeat("\u2028", 20_000) + `"`, // which is more than counts as an answer only
		`"` + strings.Repeat("x", 65_500) + `"`,
	} {
		clear(statuses)
		try(0)
		for room := 0; room < 5*len(body); room += len(body) / 7 {
			try(most - room)
		}
		if statuses[200] < 2 || statuses[503] < 2 {
			t.Errorf("%d bytes are answered with %v", len(body), statuses)
		}
	}
}

func TestContextEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	waits := slow{left: make(chan string)}
	s := serveWith(t, transports.Config{}, transports.StreamConfig{}, waits)
	// bytes after the request must not hide the disconnect
	for _, behind := range []string{"", "GET /ok HTTP/1.1\r\n"} {
		c, _ := s.dial("GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n" + behind)
		if begun := <-waits.left; begun != "" {
			t.Fatal(begun)
		}
		_ = c.Close()
		if got := <-waits.left; got != "context canceled" {
			t.Errorf("the context has ended with %q", got)
		}
	}
	until(t, "the log tells of both", func() bool { return strings.Count(s.log.String(), "its client has left") == 2 })
	if log := s.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("a client that leaves is taken for an error: %s", log)
	}
}

func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Conns: 20, PeerConns: 10})
	var idle []*bufio.Reader
	for range 30 {
		_, in := s.dial("")
		idle = append(idle, in)
	}
	for range 5 { // some have sent half a head
		_, in := s.dial("GET /ok HTTP/1.1\r\n")
		idle = append(idle, in)
	}
	if a := s.do("GET", "/ok", nil); a.status != 200 {
		t.Errorf("behind idle connections: got %d", a.status)
	}
	for _, in := range idle[:20] {
		if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("an idle connection was not closed: %v", err)
		}
	}
}

func TestBusyConnectionsAreNotClosedForOthers(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Conns: 20, PeerConns: 5})
	var open []*bufio.Reader
	for range 5 {
		_, in := s.dial("GET /stream/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		open = append(open, in)
	}
	_, in := s.dial("")
	resp, err := http.ReadResponse(in, nil)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !resp.Close {
		t.Errorf("got %+v, %v", resp, err)
	}
	var problem transports.Problem
	if err := json.Unmarshal(body, &problem); err != nil || problem.Detail == "" || problem.Code != "overloaded" {
		t.Errorf("the body is %q, %v", body, err)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/json" || resp.ContentLength != int64(len(body)) {
		t.Errorf("got a %q of %d bytes, the header says %d", got, len(body), resp.ContentLength)
	}
	if rest, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the answer came %q, %v", rest, err)
	}
	if n := s.Streams.Open(); n != 5 {
		t.Errorf("%d streams are open", n)
	}
	_ = open
}
