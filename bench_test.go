//go:build unix

package baton_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batonrun/baton"
)

// listener is the door of Baton's own listener.
func listener(_ testing.TB, s *baton.Server) string { return s.URL() }

func nethttp(tb testing.TB, s *baton.Server) string {
	tb.Helper()
	srv := httptest.NewServer(s.Handler())
	tb.Cleanup(srv.Close)
	tb.Cleanup(func() { _ = s.Close() }) // before the HTTP server
	return srv.URL
}

// BenchmarkDoors measures the costs of each door: a small request (ns/op), an idle stream (B/stream, including the client's socket),
// and an event written to one viewer of a live run (cpu-ns/event, including the client and the run).
func BenchmarkDoors(b *testing.B) {
	for _, door := range []struct {
		name string
		url  func(testing.TB, *baton.Server) string
	}{{"listener", listener}, {"fiber", doors["fiber"]}, {"net-http", nethttp}} {
		b.Run("request/"+door.name, func(b *testing.B) {
			url := door.url(b, open(b, baton.Config{Listen: "127.0.0.1:0"}))
			for b.Loop() {
				answer(b, send(b, "GET", url+"/api/v1/workflows", ""))
			}
		})
		b.Run("idle/"+door.name, func(b *testing.B) {
			s := open(b, baton.Config{Listen: "127.0.0.1:0"})
			url := door.url(b, s)
			answer(b, send(b, "POST", url+"/api/v1/agent/runs", `{"agent":"echo","threadId":"main","content":"x"}`, "Accept", "text/event-stream"))
			const streams = 500
			for b.Loop() {
				before := inUse()
				var conns []net.Conn
				for range streams {
					conns = append(conns, follow(b, url))
				}
				b.ReportMetric(float64(inUse()-before)/streams, "B/stream")
				for _, c := range conns {
					_ = c.Close()
				}
			}
		})
		b.Run("event/"+door.name, func(b *testing.B) {
			s := open(b, baton.Config{Listen: "127.0.0.1:0"})
			url := door.url(b, s)
			const viewers, tokens = 20, 500
			for i := 0; b.Loop(); i++ {
				thread := fmt.Sprint("t", i)
				answer(b, send(b, "POST", url+"/api/v1/agent/runs", `{"agent":"echo","threadId":"`+thread+`","content":"x"}`, "Accept", "text/event-stream"))
				var all sync.WaitGroup
				for range viewers {
					res := send(b, "GET", url+"/api/v1/agent/runs/"+thread+"/events?follow=true&after_event_id=latest", "")
					all.Go(func() {
						for lines := bufio.NewScanner(res.Body); lines.Scan() && lines.Text() != "event: RUN_FINISHED"; {
						}
						_ = res.Body.Close()
					})
				}
				start := cpu()
				send(b, "POST", url+"/api/v1/agent/runs", fmt.Sprintf(`{"agent":"scripted","threadId":"%s","content":"{\"do\":[{\"tokens\":%d,\"delayMs\":2}]}"}`, thread, tokens))
				all.Wait()
				b.ReportMetric(float64(cpu()-start)/(viewers*tokens), "cpu-ns/event")
			}
		})
	}
}

// follow opens a stream on a bare connection.
func follow(tb testing.TB, url string) net.Conn {
	tb.Helper()
	host := strings.TrimPrefix(url, "http://")
	c, err := net.Dial("tcp", host)
	must(tb, err)
	if _, err := fmt.Fprintf(c, "GET /api/v1/agent/runs/main/events?follow=true HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		tb.Fatal(err)
	}
	var buf [4 << 10]byte
	for seen := ""; !strings.Contains(seen, "RUN_FINISHED"); {
		n, err := c.Read(buf[:])
		must(tb, err)
		seen += string(buf[:n])
	}
	return c
}

// inUse returns the memory in use by heap and stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
