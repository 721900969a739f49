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
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/wire"
)

// historyPage is how many messages of a day are held at once.
const historyPage = 200

// history answers GET history: one day of a thread. A day of several pages is written while it is read; if reading fails, the
// answer ends inside its JSON, so that no client takes it for complete.
func (t Transport) history(c *fiber.Ctx, who runtime.Caller) error {
	before, err := wire.Day("before", c.Query("before"))
	if err != nil {
		return err
	}
	h, err := t.Runtime.Threads.History(c.UserContext(), who, c.Query("threadId"), before)
	if err != nil {
		return err
	}
	frame, err := wire.Encode(wire.NewHistory(h))
	if err != nil {
		return err
	}
	d := day{t: t, who: who, of: h, held: t.Streams.Budget.Hold().For(t.Streams.Owner(transports.HolderOf(c)))}
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
		defer d.held.Release() // the server counts the answer
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
		t.Streams.Guard(func() { // in a goroutine of fasthttp's, which a panic must not leave
			defer d.held.Release()
			if d.write(ctx, w, frame[:at], frame[at:]) != nil {
				_ = conn.Close() // otherwise the client would take the part for the whole
			}
		})
	})
	return nil
}

// maxWhole is the most that is read on for a client that needs the length of the answer.
const maxWhole = 16 << 20

var errWhole = &runtime.Error{
	Kind: runtime.KindTooLarge, Code: "answer_too_large", Detail: "The day is larger than 16 MiB; ask for it with HTTP/1.1",
}

// day is a day of a thread, page by page.
type day struct {
	t    Transport
	who  runtime.Caller
	of   runtime.History
	held *budget.Hold // for the page

	page []byte // its messages as JSON, with commas between them
	last int64  // the seq of the last one
	more bool   // there are some behind it

	uncounted int // bytes of pages, below a rates.Unit
}

// read reads the next page in its caller's turn. The caller holds it until it is written.
func (d *day) read(ctx context.Context) error {
	end, err := d.t.Streams.Turn(ctx, d.who)
	if err != nil {
		return err
	}
	defer end()
	msgs, err := d.t.Runtime.Threads.HistoryMessages(ctx, d.of, d.last, historyPage)
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
	if d.uncounted += len(d.page); d.uncounted >= rates.Unit {
		d.t.Streams.Rates.Charge(d.who, d.uncounted)
		d.uncounted = 0
	}
	return d.held.Grow(len(d.page))
}

// Pages are written in pieces, as fasthttp keeps copies until the client has read them.
const (
	pieceSize  = 64 << 10
	piecesKept = 4
)

// write writes the read page and all following ones, between the text before and behind the messages.
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
