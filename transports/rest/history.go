package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/budget"
	"github.com/batonrun/baton/transports/wire"
)

// historyPage is how many messages of a day are held at once.
const historyPage = 200

// history answers GET history: a day of a thread, all of it. A day of more than a page is written as it is
// read; if that fails, the answer breaks off inside its JSON and cannot be taken for whole.
func (t Transport) history(c *fiber.Ctx, who runtime.Caller) error {
	before, err := wire.Day("before", c.Query("before"))
	if err != nil {
		return err
	}
	h, err := t.Runtime.History(c.UserContext(), who, c.Query("threadId"), before)
	if err != nil {
		return err
	}
	frame, err := wire.Encode(wire.NewHistory(h))
	if err != nil {
		return err
	}
	d := day{Transport: t, who: who, of: h, held: t.hold(c)}
	if err := d.read(c.UserContext()); err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	at := bytes.LastIndexByte(frame, ']') // of the messages, which come last
	if c.Method() == fiber.MethodHead && d.more {
		d.held.Release()
		return nil
	}
	if !d.more || !c.Request().Header.IsHTTP11() { // which knows no answer without a length
		defer d.held.Release() // the server counts what it answers with
		whole := d.page
		for d.more {
			if len(whole) > maxWhole {
				return errWhole
			}
			if err := errors.Join(d.read(c.UserContext()), d.held.Grow(len(d.page))); err != nil { // which is copied
				return err
			}
			whole = append(whole, d.page...)
		}
		return c.Send(slices.Concat(frame[:at], whole, frame[at:]))
	}
	ctx, conn := c.UserContext(), c.Context().Conn() // which ctx ends with, and not with this
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		t.guard(func() {
			defer d.held.Release()
			if d.write(ctx, w, frame[:at], frame[at:]) != nil {
				_ = conn.Close() // else what has come would be taken for all of it
			}
		})
	})
	return nil
}

// maxWhole is how much of a day is read on for a client that is given it whole.
const maxWhole = 16 << 20

var errWhole = &runtime.Error{
	Kind: runtime.KindTooLarge, Code: "answer_too_large", Detail: "The day is larger than 16 MiB; ask for it with HTTP/1.1",
}

// guard runs fn in a goroutine of fasthttp's, which a panic must not leave.
func (t Transport) guard(fn func()) {
	if t.Streams == nil {
		fn()
		return
	}
	t.Streams.Guard(fn)
}

// hold is what is held for the answer to c. It belongs to whoever asked.
func (t Transport) hold(c *fiber.Ctx) *budget.Hold {
	if t.Streams == nil {
		return new(budget.Hold)
	}
	return t.Streams.Budget.Hold().For(t.Streams.Owner(transports.HolderOf(c)))
}

// day is a day of a thread, page by page.
type day struct {
	Transport
	who  runtime.Caller
	of   runtime.History
	held *budget.Hold // for the page

	page []byte // its messages as JSON, with commas between them
	last int64  // the seq of the last one
	more bool   // there are some behind it
}

// read reads the next page, in its caller's turn: from then on it is held for who takes it.
func (d *day) read(ctx context.Context) error {
	if d.Streams != nil {
		end, err := d.Streams.Turn(ctx, d.who)
		if err != nil {
			return err
		}
		defer end()
	}
	msgs, err := d.Runtime.HistoryMessages(ctx, d.of, d.last, historyPage)
	if err != nil {
		return err
	}
	d.page, d.more = nil, msgs.More
	for i := range msgs.Rows {
		msg, err := wire.Encode(wire.NewHistoryMessage(&msgs.Rows[i]))
		if err != nil {
			return err
		}
		if d.last > 0 {
			d.page = append(d.page, ',')
		}
		d.page = append(d.page, msg...)
		d.last = msgs.Rows[i].Seq
	}
	return d.held.Grow(len(d.page))
}

// Pages are written in pieces, of which fasthttp keeps copies until its client takes them.
const (
	pieceSize  = 64 << 10
	piecesKept = 4
)

// write writes what was read, and all that follows it, between what comes before and behind the messages.
func (d *day) write(ctx context.Context, w io.Writer, before, behind []byte) error {
	if _, err := w.Write(before); err != nil {
		return err
	}
	kept := 0
	for {
		for piece := range slices.Chunk(d.page, pieceSize) {
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
		keeps := min(len(d.page), piecesKept*pieceSize)
		d.held.Shrink(len(d.page) + kept - keeps)
		kept, d.page = keeps, nil
		if !d.more {
			break
		}
		if err := d.read(ctx); err != nil {
			return err
		}
	}
	_, err := w.Write(behind)
	return err
}
