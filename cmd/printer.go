package cmd

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// printer writes to a file from a goroutine of its own. A server prints through it, so that a reader that stalls or closes its pipe, or
// a full disk, neither stops nor ends it. Text beyond maxPending is dropped, and so is text that the file refuses.
type printer struct {
	to   io.Writer
	done chan struct{} // closed once everything is written after close
	torn bool          // the last line that was written is not whole

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	pending []byte
	dropped int // lines that no report has counted
	closed  bool
	report  func(dropped int) []byte // the line that reports dropped lines once the file accepts text again; nil for none
}

// maxPending is how much text waits for the file.
const maxPending = 1 << 20

// lastWords is how long close waits for a file that does not accept the last text.
const lastWords = time.Second

// newPrinter returns a printer to a file. Close it.
func newPrinter(to io.Writer) *printer {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // the end of a reader is an error of Write; programs that we start do not inherit this
	p := &printer{to: to, done: make(chan struct{})}
	p.changed = sync.NewCond(&p.mu)
	go p.run() // ends after close, or with the process
	return p
}

// Write never waits and never fails.
func (p *printer) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending)+len(text) > maxPending || p.closed {
		p.dropped += lineCount(text)
		return len(text), nil
	}
	p.pending = append(p.pending, text...)
	p.changed.Signal()
	return len(text), nil
}

// reportAs sets the line that reports dropped lines.
func (p *printer) reportAs(report func(dropped int) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report = report
}

func lineCount(text []byte) int { return max(1, bytes.Count(text, []byte("\n"))) }

func (p *printer) run() {
	defer close(p.done)
	var text []byte
	for {
		p.mu.Lock()
		for len(p.pending) == 0 && !p.closed {
			p.changed.Wait()
		}
		text, p.pending = p.pending, text[:0]
		dropped, report := p.dropped, p.report
		p.mu.Unlock()
		if len(text) == 0 {
			return
		}
		if dropped > 0 && report != nil {
			text = append(text, report(dropped)...)
		}
		p.write(text, dropped)
	}
}

// write writes a text that reports so many dropped lines.
func (p *printer) write(text []byte, reported int) {
	if p.torn {
		text = append([]byte("\n"), text...)
	}
	n, err := p.to.Write(text)
	if n > 0 {
		p.torn = text[n-1] != '\n'
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.dropped -= reported
	} else {
		p.dropped += lineCount(text[n:])
	}
}

// close waits until the file has the text, but not longer than lastWords.
func (p *printer) close() {
	p.mu.Lock()
	p.closed = true
	p.changed.Signal()
	p.mu.Unlock()
	select {
	case <-p.done:
	case <-time.After(lastWords):
	}
}
