package ws

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"
	"unicode/utf8"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/budget"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// The codes with which sockets are closed, beside 4000 and an HTTP status.
const (
	closeDone     = websocket.CloseNormalClosure
	closeStopping = websocket.CloseGoingAway
	closeStatus   = 4000
	closeSlow     = 4008
)

// handshake is the time for the client's answer to a close frame.
const handshake = time.Second

// socket is the server's end of a WebSocket.
type socket struct {
	conn *websocket.Conn // contrib's own is another socket's once its handler has returned
	w    *stream.Writer
	log  *slog.Logger

	budget *budget.Budget // for replies

	latest latest       // of the client's input; used by the reading goroutine, as is the next field
	kept   *budget.Hold // of the message that a handler has kept, nil for none
}

// serve is a socket's life.
func (s *socket) serve(ctx context.Context, streams *transports.Streams, of quota.Owner, conv *conversation) {
	s.conn.SetReadLimit(conv.limit)
	deaf := make(chan struct{})
	go func() { // ends when nothing more can be read, at the latest at the deadline set below
		defer close(deaf)
		defer s.w.Abort()
		streams.Guard(func() { s.listen(ctx, conv, of) })
	}()
	wait := time.Duration(0) // also when talk panics: the reader must not outlive the connection
	defer func() {
		s.w.StopReading(time.Now().Add(wait))
		<-deaf
		if s.kept != nil {
			s.kept.Release()
		}
	}()
	err := conv.talk(ctx, s)
	if errors.Is(err, stream.ErrGone) {
		err = context.Cause(ctx) // a write may fail because the stream has ended
	}
	wait = s.close(err)
}

// listen reads the client's messages until it disconnects.
func (s *socket) listen(ctx context.Context, conv *conversation, of quota.Owner) {
	for {
		held := s.budget.Hold().For(of)
		kind, msg, err := s.message(held, int(conv.limit))
		if err != nil {
			held.Release()
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				s.w.Linger() // the library may have sent an error to a client that still sends
			}
			return
		}
		if conv.take != nil && ctx.Err() == nil && conv.take(ctx, s, message{kind, msg, held}) {
			s.kept = held
		} else {
			held.Release()
		}
	}
}

// message is a client's message. The budget counts it until take returns, or if take keeps it until it is released or the socket
// ends.
type message struct {
	kind int
	body []byte
	held *budget.Hold
}

// largeMessage is the size above which a message counts twice, for its decoded form.
const largeMessage = 64 << 10

// message reads the next message. It closes the socket with the reason of an error.
func (s *socket) message(held *budget.Hold, limit int) (int, []byte, error) {
	kind, r, err := s.conn.NextReader()
	var msg []byte
	if err == nil {
		msg, err = held.ReadAll(&arriving{Reader: r, w: s.w, began: time.Now()}, -1, limit)
		if err == nil && len(msg) > largeMessage {
			err = held.Grow(wire.Decoded(msg))
		}
		s.w.UnlimitReads()
		if errors.Is(err, os.ErrDeadlineExceeded) && !s.w.ReadingStopped() {
			err = s.abort(closeStatus+408, "The message took too long to arrive")
		}
	}
	var refused *runtime.Error
	switch {
	case errors.Is(err, budget.ErrSpent):
		return 0, nil, s.abort(closeStatus+503, budget.ErrSpent.Detail)
	case errors.As(err, &refused) && refused.Kind == runtime.KindOverloaded:
		return 0, nil, s.abort(closeStatus+429, refused.Detail)
	case errors.Is(err, websocket.ErrReadLimit): // the library has sent the close frame, unless the length is invalid
		_ = s.abort(websocket.CloseProtocolError, "A frame must have a length")
	case err == nil && kind == websocket.TextMessage && !utf8.Valid(msg):
		return 0, nil, s.abort(websocket.CloseInvalidFramePayloadData, "A text must be UTF-8")
	}
	return kind, msg, err
}

// arriving reads a message in pieces. Each shows that the client is alive, and has a deadline.
type arriving struct {
	io.Reader
	w     *stream.Writer
	began time.Time
	got   int
}

func (a *arriving) Read(p []byte) (int, error) {
	a.w.Alive()
	a.w.LimitReads(a.began, a.got)
	n, err := a.Reader.Read(p)
	a.got += n
	return n, err
}

// errAborted means that the socket was closed for the client's input.
var errAborted = errors.New("the client has broken the protocol")

// abort closes the socket at once, as the library does for the protocol errors that it finds.
func (s *socket) abort(code int, reason string) error {
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(handshake))
	return errAborted
}

// answerClose answers the client's close frame: with the same code, or with a protocol error if it has half a code, which the
// library ignores.
func (s *socket) answerClose(code int, _ string) error {
	if code == websocket.CloseNoStatusReceived && s.latest.isHalfClose() {
		return s.abort(websocket.CloseProtocolError, "A close frame must hold a whole code")
	}
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(handshake))
	return nil
}

// close closes the socket because of err, nil when all is done, and returns how long to wait for the client's
// word on it.
func (s *socket) close(err error) time.Duration {
	slow := errors.Is(err, stream.ErrSlow)
	if errors.Is(err, stream.ErrGone) && !slow {
		return 0
	}
	payload := websocket.FormatCloseMessage(s.verdict(err))
	if !slow && s.conn.WriteControl(websocket.CloseMessage, payload, time.Now().Add(handshake)) == nil {
		return handshake
	}
	s.w.Linger() // so that unread input does not reset the connection before the last frame
	s.w.Farewell(append([]byte{0x88, byte(len(payload))}, payload...))
	return 0
}

// verdict is the close code and reason for err.
func (s *socket) verdict(err error) (code int, reason string) {
	switch {
	case err == nil:
		return closeDone, ""
	case errors.Is(err, stream.ErrSlow):
		return closeSlow, "The client is too slow; go on behind the last id"
	case errors.Is(err, runtime.ErrStopping):
		return closeStopping, "The server is stopping; come back soon"
	}
	status, p := s.problem(err, s.w.Labels()...)
	return closeStatus + status, cut(p.Detail)
}

// problem is the status and body for err. It logs unknown errors with the names in about.
func (s *socket) problem(err error, about ...any) (int, transports.Problem) {
	status, p, _ := transports.Status(err)
	if status == 500 && !errors.Is(err, stream.ErrGone) {
		s.log.With(about...).Error("a socket failed", "error", err)
	}
	return status, p
}

// maxReason is how long the reason of a close may be, in bytes.
const maxReason = 123

// cut shortens a reason at a rune.
func cut(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	end := maxReason
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// encode returns v as JSON, which must be possible.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
