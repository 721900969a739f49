package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
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
	first, err := t.Runtime.HistoryMessages(c.UserContext(), h, 0, historyPage)
	if err != nil {
		return err
	}
	if !first.More {
		return c.JSON(wire.NewHistory(h, first.Rows))
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	ctx := c.UserContext() // which ends with the connection, not with this
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		t.guard(func() { _ = t.writeDay(ctx, w, h, first) })
	})
	return nil
}

// guard runs fn in a goroutine of fasthttp's, which a panic must not leave.
func (t Transport) guard(fn func()) {
	if t.Streams == nil {
		fn()
		return
	}
	t.Streams.Guard(fn)
}

// writeDay writes the answer with the messages of msgs and all that follow them.
func (t Transport) writeDay(ctx context.Context, w io.Writer, h runtime.History, msgs runtime.Page[runtime.Message]) error {
	answer, err := json.Marshal(wire.NewHistory(h, msgs.Rows))
	if err != nil {
		return err
	}
	end := bytes.LastIndexByte(answer, ']') // of the messages, which come last
	if _, err := w.Write(answer[:end]); err != nil {
		return err
	}
	for msgs.More {
		if msgs, err = t.Runtime.HistoryMessages(ctx, h, msgs.Rows[len(msgs.Rows)-1].Seq, historyPage); err != nil {
			return err
		}
		for i := range msgs.Rows {
			msg, err := json.Marshal(wire.NewHistoryMessage(&msgs.Rows[i]))
			if err != nil {
				return err
			}
			if _, err := w.Write(append([]byte{','}, msg...)); err != nil {
				return err
			}
		}
	}
	_, err = w.Write(answer[end:])
	return err
}
