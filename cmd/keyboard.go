package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
)

// keyboard reads the user's lines and Ctrl-C.
type keyboard struct {
	out      io.Writer
	file     *os.File // the input, nil if it is not a file
	terminal bool     // input and output are a terminal
	lines    chan typedLine
	signals  chan os.Signal
	done     chan struct{}
	once     sync.Once
	reading  atomic.Bool
	in       *bufio.Reader
}

type typedLine struct {
	text string
	err  error
}

const maxLine = 1 << 20

func newKeyboard(in io.Reader, out io.Writer) *keyboard {
	k := &keyboard{
		out: out, terminal: isTerminal(in) && isTerminal(out), lines: make(chan typedLine),
		signals: make(chan os.Signal, 2), done: make(chan struct{}), in: bufio.NewReaderSize(in, 64<<10),
	}
	k.file, _ = in.(*os.File)
	signal.Notify(k.signals, os.Interrupt)
	return k
}

func (k *keyboard) close() {
	k.once.Do(func() {
		signal.Stop(k.signals)
		close(k.done)
	})
}

// read sends one line to lines. It returns after the line or at the end of the input.
func (k *keyboard) read() {
	var b strings.Builder
	for {
		part, err := k.in.ReadSlice('\n')
		if b.Len()+len(part) > maxLine {
			err = fmt.Errorf("the line has more than %d bytes", maxLine)
		}
		b.Write(part)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && b.Len() > 0 {
			err = nil
		}
		k.reading.Store(false)
		select {
		case k.lines <- typedLine{strings.TrimRight(b.String(), "\r\n"), err}:
		case <-k.done:
		}
		return
	}
}

// errCtrlC means that the user has pressed Ctrl-C.
var errCtrlC = errors.New("Ctrl-C")

// message returns the next line. On a terminal it adds the lines that are already there, so that pasted lines are one message.
func (k *keyboard) message(ctx context.Context, prompt string) (string, error) {
	text, err := k.line(ctx, prompt)
	for err == nil && k.terminal && !isCommand(text) && len(text) < maxLine && (k.in.Buffered() > 0 || moreToRead(k.file)) {
		var next string
		if next, err = k.line(ctx, ""); err == nil {
			text += "\n" + next
		}
	}
	if errors.Is(err, io.EOF) && text != "" {
		err = nil // the next call returns it
	}
	return text, err
}

func isCommand(line string) bool { return strings.HasPrefix(line, "/") && !strings.Contains(line, " ") }

// line returns the next line. It fails with io.EOF after the last line, with errCtrlC at Ctrl-C, and with errQuit
// when ctx ends.
func (k *keyboard) line(ctx context.Context, prompt string) (string, error) {
	if k.terminal {
		_, _ = io.WriteString(k.out, prompt)
	}
	if !k.reading.Swap(true) {
		go k.read() // ends after a line, at the latest with the process
	}
	select {
	case l := <-k.lines:
		if errors.Is(l.err, io.EOF) && k.terminal {
			_, _ = fmt.Fprintln(k.out)
		}
		return l.text, l.err
	case <-k.signals:
		_, _ = fmt.Fprintln(k.out)
		return "", errCtrlC
	case <-ctx.Done():
		return "", errQuit
	}
}

// turnContexts returns two contexts: stop ends with ctx or at the first Ctrl-C, now at the second. release ends both; do not
// read lines before.
func (k *keyboard) turnContexts(ctx context.Context) (stop, now context.Context, release func()) {
	stop, stopNow := context.WithCancel(ctx)
	now, nowNow := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { // ends with release
		for _, cancel := range []context.CancelFunc{stopNow, nowNow} {
			select {
			case <-k.signals:
				cancel()
			case <-over:
				return
			}
		}
	})
	return stop, now, func() {
		close(over)
		watching.Wait()
		stopNow()
		nowNow()
	}
}
