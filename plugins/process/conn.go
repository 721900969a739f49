package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/child"
)

const (
	maxLine  = 16 << 20 // bytes of a message from the program
	maxInbox = 8 << 20  // bytes of unhandled messages for one run
	maxOut   = 96 << 20 // bytes of messages that the program has not read
	maxStray = 20       // invalid lines that are logged
	maxShown = 200      // bytes of such a line
)

// conn is a running program and the open requests to it.
type conn struct {
	child *child.Child
	said  hello
	born  time.Time
	stop  time.Duration
	log   *slog.Logger
	shown func(string) string // removes secrets from a text
	alone bool                // it serves one run

	mu       sync.Mutex // guards the fields below
	more     *sync.Cond // out has grown, or err is set
	out      [][]byte   // lines to write
	size     int        // of out, and of the line being written
	next     int64      // the latest id
	asked    map[int64]chan message
	sessions map[int64]*session
	users    int  // users between join and leave
	retired  bool // accepts no new users, and is closed after the last has left
	err      error
	over     time.Time // time when err was set
	lost     int       // users at that time

	strays int         // invalid lines so far; used by read alone
	heard  atomic.Bool // there was a line since the last look of watch

	broken  chan struct{}  // closed when err is set
	running sync.WaitGroup // its goroutines, and those that close it
}

// dial starts a program and its connection. The program is killed once force is closed.
func dial(cfg *Config, force <-chan struct{}) (*conn, error) {
	ch, err := child.Start(cfg.child())
	if err != nil {
		return nil, err
	}
	c := &conn{
		child: ch, born: time.Now(), stop: cfg.Stop, log: cfg.Log.With("program", cfg.Info.Name, "pid", ch.PID()), shown: cfg.shown,
		asked: make(map[int64]chan message), sessions: make(map[int64]*session), broken: make(chan struct{}),
	}
	c.more = sync.NewCond(&c.mu)
	c.running.Go(c.write) // ends when err is set, which closes its output
	c.running.Go(c.read)  // ends with the program's output
	c.running.Go(func() { c.logEnd(force) })
	return c, nil
}

// logEnd logs how the program has ended. It kills the program once force is closed.
func (c *conn) logEnd(force <-chan struct{}) {
	select {
	case <-c.child.Done():
	case <-force:
		c.child.Kill()
		<-c.child.Done()
	}
	<-c.broken // by the end of its output, if nothing else
	c.mu.Lock()
	runs, err := len(c.sessions), c.err
	c.mu.Unlock()
	level := slog.LevelWarn
	if errors.Is(err, errClosed) || c.child.Terminated() { // the server, or the system that stops it
		level = slog.LevelInfo
	}
	c.log.Log(context.Background(), level, "program has ended", "status", c.child.Status(), "reason", err, "runs", runs, "after", time.Since(c.born).Round(time.Millisecond))
}

// fail ends the connection for a reason; only the first one counts. It does not block.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err, c.over, c.lost = err, time.Now(), c.users
	close(c.broken)
	c.more.Broadcast()
	for _, s := range c.sessions {
		s.put(message{died: true}, 0)
	}
	c.running.Go(func() { _ = c.child.Close(context.Background()) })
}

// errCrashed is the error of a request whose program ended.
var errCrashed = errors.New("the program has ended")

// interrupted returns the error of a worker or tool whose program has ended, once it has. It counts as the fault of a run that was alone in
// the program, unless the program was terminated: somebody stops it.
func (c *conn) interrupted() *plugins.Interrupted {
	<-c.child.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	return &plugins.Interrupted{
		Reason: c.shown(reason(c.child, fmt.Errorf("%w: %s", c.err, c.child.Status())).Error()),
		Counts: c.alone || c.lost <= 1 && !c.child.Terminated(),
	}
}

// close ends the program and waits for its end and for the connection's goroutines.
func (c *conn) close() {
	c.fail(errClosed)
	c.running.Wait()
}

// errHung is the reason of a program that says no more that it lives.
var errHung = errors.New("the program hangs: it is silent and uses no processor time")

// silences is the number of times in a row that a program must be found silent to count as hanging.
const silences = 5

// watch ends the connection when the program, which promised a line in each period, hangs. A program that uses processor time does not:
// a computation can keep its other threads from saying so. It counts looks instead of time, so that nobody hangs because the whole
// machine stood still.
func (c *conn) watch(period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for silent, used := 0, int64(0); silent < silences; {
		select {
		case <-c.broken:
			return
		case <-tick.C:
		}
		was, known := used, false
		if used, known = c.child.Used(); c.heard.Swap(false) || !known || used != was {
			silent = 0
		} else {
			silent++
		}
	}
	c.fail(errHung)
	c.child.Kill()
}

// errClosed is the reason of a connection that we closed.
var errClosed = errors.New("closed")

// crashed reports whether the connection ended without our closing it.
func (c *conn) crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil && !errors.Is(c.err, errClosed)
}

// ended returns when and why the connection ended without our closing it, nil otherwise.
func (c *conn) ended() (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.err, errClosed) {
		return time.Time{}, nil
	}
	return c.over, c.err
}

// send queues a message to the program. It does not block; a program that does not read loses its connection.
func (c *conn) send(m message) {
	line := append(encode(m), '\n')
	c.mu.Lock()
	full := c.size+len(line) > maxOut
	if !full {
		c.out = append(c.out, line)
		c.size += len(line)
		c.more.Signal()
	}
	c.mu.Unlock()
	if full {
		c.fail(errors.New("the program does not read its input"))
	}
}

func (c *conn) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.out) == 0 && c.err == nil {
			c.more.Wait()
		}
		if c.err != nil {
			return
		}
		line := c.out[0]
		c.out = c.out[1:]
		c.mu.Unlock()
		_, err := c.child.Input.Write(line)
		c.mu.Lock()
		c.size -= len(line)
		if err != nil {
			return // read sees the end
		}
	}
}

// read passes on the program's messages in order until its end.
func (c *conn) read() {
	in := bufio.NewReaderSize(c.child.Output, 64<<10)
	for {
		line, long, err := readLine(in)
		c.heard.Store(true)
		if long != nil {
			c.mistake(long.message(), line, fmt.Sprintf("a message may have %d bytes", maxLine))
		} else if err == nil || len(line) > 0 {
			c.handle(line)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errCrashed
			}
			c.fail(err)
			return
		}
	}
}

// readLine returns the next line without its end. Of a line that is too long it returns the beginning, and what can be made out.
func readLine(in *bufio.Reader) (whole []byte, long *glance, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if err == nil && whole == nil {
			return part, nil, nil
		}
		switch {
		case long != nil:
			_, _ = long.Write(part)
		case len(whole)+len(part) > maxLine:
			long = new(glance)
			_, _ = long.Write(whole)
			_, _ = long.Write(part)
			whole = bytes.Clone(whole[:maxShown])
		default:
			whole = append(whole, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return whole, long, err
		}
	}
}

var bom = []byte("\ufeff")

// handle passes a line on, if it is a message.
func (c *conn) handle(line []byte) {
	line = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(line), bom))
	if len(line) == 0 {
		return
	}
	var m message
	err := json.Unmarshal(line, &m)
	switch wrong := (*json.UnmarshalTypeError)(nil); {
	case err == nil && (m.Method != "" || m.ID != nil):
		c.take(m, len(line))
		return
	case err == nil:
		c.stray(line)
		return
	case errors.As(err, &wrong):
		err = fmt.Errorf("%s must not be of the kind %s", cmp.Or(wrong.Field, "a message"), wrong.Value)
	}
	g := new(glance)
	_, _ = g.Write(line)
	c.mistake(g.message(), line, err.Error())
}

// mistake ends the request to which a line belongs that is no message, as far as that can be made out, and nothing else.
func (c *conn) mistake(m message, line []byte, why string) {
	c.stray(line)
	switch {
	case m.Method == "" && m.ID != nil:
		c.answer(message{ID: m.ID, Error: failureOf(badLine("answer", why))})
	case m.ID != nil:
		c.send(message{ID: m.ID, Error: failureOf(badLine("request", why))})
	case m.Method != "":
		c.mu.Lock()
		s := c.sessions[runOf(m)]
		c.mu.Unlock()
		if s != nil {
			s.put(message{Error: failureOf(badLine("message", why))}, 0)
		}
	}
}

func badLine(kind, why string) error {
	return &plugins.Error{Code: "bad_message", Message: fmt.Sprintf("The program's %s cannot be read: %s", kind, why)}
}

// stray logs the beginning of a line that is no message.
func (c *conn) stray(line []byte) {
	if c.strays++; c.strays <= maxStray {
		c.log.Warn("invalid line on standard output", "line", string(line[:min(len(line), maxShown)]))
	}
}

// runOf returns the run that a message names, or 0.
func runOf(m message) int64 {
	var to struct {
		Run int64 `json:"run"`
	}
	if json.Unmarshal(m.Params, &to) != nil {
		return 0
	}
	return to.Run
}

// take passes a message to its recipient.
func (c *conn) take(m message, size int) {
	if m.Method == "" {
		c.answer(m)
		return
	}
	run := runOf(m)
	c.mu.Lock()
	s := c.sessions[run]
	c.mu.Unlock()
	switch {
	case s != nil:
		s.put(m, size)
	case m.ID == nil: // sent late by a cancelled run
	case run == 0:
		c.send(message{ID: m.ID, Error: &failure{Code: codeInvalidParams, Message: "params must be an object that names the run"}})
	default:
		c.send(message{ID: m.ID, Error: failureOf(plugins.ErrEnded)})
	}
}

// answer passes a response to its run, after the run's other messages, or to the caller of ask.
func (c *conn) answer(m message) {
	id, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64) // some write it as a text
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil {
		s.put(m, 0)
		delete(c.sessions, id) // no message follows it
	}
	if waits := c.asked[id]; waits != nil {
		waits <- m
		delete(c.asked, id)
	}
}

// ask makes a request and waits for its response.
func (c *conn) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan message, 1)
	id := c.expect(answer)
	c.send(message{ID: number(id), Method: method, Params: encode(params)})
	select {
	case m := <-answer:
		return m.Result, m.failed()
	case <-c.broken:
		select {
		case m := <-answer: // its last one
			return m.Result, m.failed()
		default:
		}
		return nil, errCrashed
	case <-ctx.Done():
		c.cancel(id, answer, context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

// expect returns an id whose response is sent to answer.
func (c *conn) expect(answer chan message) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.asked[c.next] = answer
	return c.next
}

// cancel informs the program that a request is cancelled. Its response is sent to answer unless it is already there. A program
// that does not respond for long counts as hanging: it gets no more work, and is ended when its other users have left.
func (c *conn) cancel(id int64, answer <-chan message, why error, about ...any) {
	reason := "cancelled"
	if errors.Is(why, plugins.ErrStopping) {
		reason = "stopping"
	}
	c.mu.Lock()
	c.users++
	c.mu.Unlock()
	c.send(message{Method: "cancel", Params: encode(struct {
		ID     int64  `json:"id"`
		Reason string `json:"reason"`
	}{id, reason})})
	go func() { // ends with the answer, the time, or the connection
		defer c.leave()
		select {
		case <-answer:
		case <-c.broken:
		case <-time.After(c.stop):
			c.log.With(about...).Warn("the program does not end a cancelled run; it is started anew for the next")
			c.retire()
		}
	}()
}

// forget drops the response to a request.
func (c *conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, id)
}

// open starts a session of a run, whose id is that of the following request.
func (c *conn) open(ctx context.Context, run *plugins.Run) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	s := newSession(ctx, c, c.next, run)
	c.sessions[s.id], c.asked[s.id] = s, s.answered
	if c.err != nil {
		s.put(message{died: true}, 0)
	}
	return s
}

// join counts a user, unless the connection accepts none.
func (c *conn) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired || c.err != nil {
		return false
	}
	c.users++
	return true
}

// leave reverses join.
func (c *conn) leave() {
	c.mu.Lock()
	c.users--
	idle := c.retired && c.users == 0
	c.mu.Unlock()
	if idle {
		c.fail(errClosed)
	}
}

// retire gives the program no more work. It ends when its users have left.
func (c *conn) retire() {
	c.mu.Lock()
	c.retired = true
	idle := c.users == 0
	c.mu.Unlock()
	if idle {
		c.fail(errClosed)
	}
}
