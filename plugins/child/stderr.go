package child

import (
	"bufio"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Limits on the logging of a program's standard error.
const (
	window    = 10 * time.Second
	perWindow = 256 << 10 // bytes of lines
	perLine   = 128       // overhead of a line's record in bytes
	maxLine   = 8 << 10   // bytes of a line; longer lines are cut
)

// stderrLog logs the lines that fit into each window, and at its end the number and size of dropped lines.
type stderrLog struct {
	log *slog.Logger

	mu           sync.Mutex // guards the fields below
	until        time.Time  // when the window ends
	room         int        // bytes left in the window
	lines, bytes int        // dropped
	report       *time.Timer
}

// logLines logs r line by line until EOF. It keeps reading while it drops lines, so the program never blocks.
func logLines(r io.Reader, last *words, log *slog.Logger) {
	in := bufio.NewReaderSize(r, maxLine)
	s := &stderrLog{log: log}
	defer s.logDropped()
	for {
		line, more, err := in.ReadLine()
		if err != nil {
			return
		}
		last.add(string(line))
		s.line(line)
		for more && err == nil {
			line, more, err = in.ReadLine()
			s.cut(line)
		}
	}
}

func (s *stderrLog) line(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); !now.Before(s.until) {
		s.until, s.room = now.Add(window), perWindow
	}
	if s.room -= len(text) + perLine; s.room < 0 {
		s.drop(1, len(text))
		return
	}
	s.log.Info(string(text))
}

// cut drops the rest of a line.
func (s *stderrLog) cut(rest []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(0, len(rest))
}

// drop counts dropped bytes. The caller holds mu.
func (s *stderrLog) drop(lines, bytes int) {
	s.lines, s.bytes = s.lines+lines, s.bytes+bytes
	if s.report == nil {
		s.report = time.AfterFunc(time.Until(s.until), s.logDropped)
	}
}

// logDropped logs the lines and bytes dropped since its last call.
func (s *stderrLog) logDropped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report == nil {
		return
	}
	s.report.Stop()
	s.log.Warn("standard error is not all logged", "lines", s.lines, "bytes", s.bytes)
	s.report, s.lines, s.bytes = nil, 0, 0
}

// words are the last lines of a program.
type words struct {
	mu    sync.Mutex // guards lines
	lines []string
}

// Limits on last words.
const (
	maxWords = 3   // lines
	maxWord  = 200 // bytes of a line
)

// add adds a line, unless it is blank or indented: a frame of a stack, or the continuation of another line.
func (w *words) add(line string) {
	if line == "" || strings.ContainsAny(line[:1], " \t\r}])") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, strings.ToValidUTF8(strings.TrimSpace(line[:min(len(line), maxWord)]), ""))
	w.lines = w.lines[max(0, len(w.lines)-maxWords):]
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "; ")
}
