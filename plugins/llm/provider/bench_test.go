//go:build unix

package provider_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/provider"
)

// BenchmarkStream reads answers of 1 000 tokens with the model and with a client that only reads lines, and reports the
// CPU time of both per token, including the server's.
func BenchmarkStream(b *testing.B) {
	const tokens = 1000
	server := llmtest.New(llmtest.Always(llmtest.Script{Steps: llmtest.Tokens(tokens, "hello "), Usage: usage}))
	defer server.Close()
	for _, p := range protocols {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		cfg := p.config
		cfg.BaseURL, cfg.APIKey, cfg.HTTPClient = server.URL+p.path, key, &http.Client{Transport: transport}
		m, err := provider.Open(cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(p.name+"/model", func(b *testing.B) {
			start := cpu(b)
			for b.Loop() {
				n := 0
				count := func(p llm.Piece) error {
					if p.Text != "" { // other pieces report usage
						n++
					}
					return nil
				}
				if _, err := m.Stream(b.Context(), question(), count); err != nil || n != tokens {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64((cpu(b)-start).Nanoseconds())/float64(b.N)/tokens/1000, "cpu-µs/token")
		})
		asked := server.Requests()
		last := asked[len(asked)-1]
		b.Run(p.name+"/bare", func(b *testing.B) {
			start := cpu(b)
			for b.Loop() {
				bare(b, cfg.HTTPClient, server.URL+last.Path, string(last.Body))
			}
			b.ReportMetric(float64((cpu(b)-start).Nanoseconds())/float64(b.N)/tokens/1000, "cpu-µs/token")
		})
	}
}

// bare reads the lines of an answer.
func bare(b *testing.B, client *http.Client, url, body string) {
	b.Helper()
	res, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReaderSize(res.Body, 16<<10)
	for {
		if _, err := lines.ReadSlice('\n'); err == io.EOF {
			return
		} else if err != nil {
			b.Fatal(err)
		}
	}
}
