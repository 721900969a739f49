package transports_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/transporttest"
)

// sizes are those of frames around which a piece or a chunk could go wrong.
var sizes = []int{1, 2, 100, 32<<10 - 9, 32<<10 - 8, 32<<10 - 7, 32 << 10, 64 << 10, 100_000, 3_000_000}

func frame(n int) string { return fmt.Sprintf("%d:", n) + strings.Repeat("x", n) }

// streaming has one of each way for a stream to go.
func streaming(s *transporttest.Server) transports.Mounter {
	way := func(r *table, path string, fn func(context.Context, *stream.Writer) error) {
		r.Get("/stream/"+path, func(c *fiber.Ctx) error {
			c.Set("X-Mine", "kept")
			return s.Streams.Serve(c, fn)
		})
	}
	return mount(func(r *table) {
		way(r, "sizes", func(_ context.Context, w *stream.Writer) error {
			for _, n := range sizes { // one by one, then all at once
				_, _ = w.WriteString(frame(n))
				if err := w.Flush(); err != nil {
					return err
				}
			}
			for _, n := range sizes {
				_, _ = w.WriteString(frame(n))
			}
			return w.Flush()
		})
		way(r, "empty", func(context.Context, *stream.Writer) error { return nil })
		way(r, "unflushed", func(_ context.Context, w *stream.Writer) error {
			_, err := w.WriteString("text")
			return err
		})
		way(r, "panic", func(_ context.Context, w *stream.Writer) error {
			_, _ = w.WriteString("text")
			_ = w.Flush()
			panic("secret")
		})
		way(r, "error", func(_ context.Context, w *stream.Writer) error {
			_, _ = w.WriteString("text")
			_ = w.Flush()
			return errors.New("secret")
		})
		for _, end := range []string{"panic", "error"} {
			way(r, "thread/:thread_id/run/:runId/"+end, func(_ context.Context, w *stream.Writer) error {
				_ = w.Flush()
				if end == "panic" {
					panic("secret")
				}
				return errors.New("secret")
			})
		}
		way(r, "wait", func(ctx context.Context, w *stream.Writer) error {
			w.KeepAlive("event: keepalive\ndata: {}\n\n")
			_, _ = w.WriteString("text")
			_ = w.Flush()
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), runtime.ErrStopping) {
				_, _ = w.WriteString("bye")
				return w.Flush()
			}
			return context.Cause(ctx)
		})
	})
}

// dial connects a client that speaks for itself, from request on.
func (s *server) dial(request string) (net.Conn, *bufio.Reader) {
	s.Helper()
	c, err := net.Dial("tcp", s.Addr)
	must(s, err)
	if s.tls != nil {
		c = tls.Client(c, s.tls)
	}
	s.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, request); err != nil {
		s.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// read reads a stream to its end over its own connection.
func (s *server) read(version, path string) (http.Header, string, error) {
	s.Helper()
	_, in := s.dial(fmt.Sprintf("GET /stream/%s HTTP/%s\r\nHost: localhost\r\n\r\n", path, version))
	resp, err := http.ReadResponse(in, nil)
	must(s, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.Header, string(body), err
}

func TestStreamsKeepEveryByte(t *testing.T) {
	t.Parallel()
	both(t, transports.Config{}, func(t *testing.T, s *server) {
		var want strings.Builder
		for range 2 {
			for _, n := range sizes {
				want.WriteString(frame(n))
			}
		}
		for _, version := range []string{"1.0", "1.1"} {
			header, got, err := s.read(version, "sizes")
			if err != nil || got != want.String() {
				t.Errorf("HTTP/%s: got %d bytes and %v, want %d", version, len(got), err, want.Len())
			}
			for name, want := range map[string]string{
				"X-Mine": "kept", "Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
			} {
				if got := header.Get(name); got != want {
					t.Errorf("got %s %q, want %q", name, got, want)
				}
			}
			for path, want := range map[string]string{"empty": "", "unflushed": "text"} {
				if _, got, err := s.read(version, path); err != nil || got != want {
					t.Errorf("HTTP/%s %s: got %q, %v", version, path, got, err)
				}
			}
		}
	})
}

// A client that was promised the connection's end takes a cut stream for a complete one.
func TestNoStreamAnnouncesTheEndOfItsConnection(t *testing.T) {
	t.Parallel()
	both(t, transports.Config{}, func(t *testing.T, s *server) {
		for _, header := range []string{"", "Connection: close\r\n", "Connection: keep-alive\r\n"} {
			_, in := s.dial("GET /stream/error HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n")
			resp, err := http.ReadResponse(in, nil)
			must(t, err)
			defer resp.Body.Close()
			if got := resp.Header.Get("Connection"); got != "" || resp.Close {
				t.Errorf("%q: got Connection: %s", header, got)
			}
		}
	})
}

func TestConnectionOfAStreamTakesTheNextRequest(t *testing.T) {
	t.Parallel()
	both(t, transports.Config{}, func(t *testing.T, s *server) {
		c, in := s.dial("")
		for _, path := range []string{"empty", "sizes", "unflushed", "sizes"} {
			for _, path := range []string{"/stream/" + path, "/ok"} {
				if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("%s: got %s and %v", path, resp.Status, err)
				}
				_ = resp.Body.Close()
			}
		}
	})
}

// A request is awaited as long behind a stream as behind any other request, and read as fast.
func TestConnectionOfAStreamMayBeIdle(t *testing.T) {
	t.Parallel()
	both(t, transports.Config{ReadTimeout: 200 * time.Millisecond, IdleTimeout: time.Minute}, func(t *testing.T, s *server) {
		c, in := s.dial("")
		ask := func(path string) string { return "GET /" + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
		answered := func() {
			resp, err := http.ReadResponse(in, nil)
			must(t, err)
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("got %s and %v", resp.Status, err)
			}
			_ = resp.Body.Close()
		}
		for range 2 {
			_, _ = io.WriteString(c, ask("stream/sizes"))
			answered()
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("an idle connection: %v", err)
			}
			_ = c.SetReadDeadline(time.Time{})
		}
		_, _ = io.WriteString(c, ask("ok")[:10])
		if raw, err := io.ReadAll(in); err != nil || strings.Contains(string(raw), "200 OK") {
			t.Errorf("half a request: got %s, %v", raw, err)
		}
	})
}

func TestConnectionEndsWithItsStream(t *testing.T) {
	t.Parallel()
	both(t, transports.Config{}, func(t *testing.T, s *server) {
		for name, request := range map[string]string{
			"asked to":      "GET /stream/sizes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
			"HTTP/1.0":      "GET /stream/sizes HTTP/1.0\r\nHost: localhost\r\n\r\n",
			"unread":        "GET /stream/sizes HTTP/1.1\r\nHost: localhost\r\n\r\nGET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"broken stream": "GET /stream/error HTTP/1.1\r\nHost: localhost\r\n\r\n",
		} {
			_, in := s.dial(request)
			if raw, err := io.ReadAll(in); err != nil || strings.Count(string(raw), "HTTP/1.1 200") != 1 {
				t.Errorf("%s: got %d bytes and %v", name, len(raw), err)
			}
		}
	})
}

func TestFailedStreamIsCutOff(t *testing.T) {
	t.Parallel()
	both(t, transports.Config{}, func(t *testing.T, s *server) {
		for _, path := range []string{"panic", "error"} {
			if _, got, err := s.read("1.1", path); !errors.Is(err, io.ErrUnexpectedEOF) || got != "text" {
				t.Errorf("%s: got %q and %v", path, got, err)
			}
			if !strings.Contains(s.log.String(), "secret") {
				t.Errorf("%s was not logged", path)
			}
		}
		if n := s.Streams.Open(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
		if a := s.do("GET", "/ok", nil); a.status != 200 {
			t.Errorf("got %d", a.status)
		}
	})
}

func TestFailedStreamTellsOfItsRunAndThread(t *testing.T) {
	t.Parallel()
	both(t, transports.Config{}, func(t *testing.T, s *server) {
		for path, msg := range map[string]string{"panic": "a stream panicked", "error": "a stream failed"} {
			_, _, _ = s.read("1.1", "thread/t1/run/r1/"+path)
			if want := `msg="` + msg + `" run=r1 thread=t1 `; !strings.Contains(s.log.String(), want) {
				t.Errorf("no %s in %s", want, s.log)
			}
		}
	})
}

func TestStreamsThatBeginWhileStoppingSayGoodbye(t *testing.T) {
	t.Parallel()
	both(t, transports.Config{}, func(t *testing.T, s *server) {
		must(t, s.Streams.Shutdown(t.Context()))
		if _, got, err := s.read("1.1", "wait"); err != nil || got != "textbye" {
			t.Errorf("got %q and %v", got, err)
		}
	})
}
