package ws

import (
	"context"
	"fmt"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/wire"
)

// take does a command and answers it.
func (d *desk) take(ctx context.Context, s *socket, msg message) bool {
	limited := d.t.Streams.Rates.Take(d.who) // as a request of its own
	cmd, err := d.read(msg.kind, msg.body)
	if limited != nil && cmd.Op != "cancel" { // which is never refused
		s.refuse(cmd.Ref, "", limited)
		rest(ctx)
		return false
	}
	d.t.Streams.Rates.Charge(d.who, rates.Stored*len(msg.body))
	var result any
	var then func()
	if err == nil {
		result, then, err = d.do(ctx, s, &cmd)
	}
	if err != nil {
		s.refuse(cmd.Ref, "", err, "op", cmd.Op, "run", cmd.RunID, "thread", cmd.ThreadID)
		return false
	}
	s.say(reply{Op: "ack", Ref: cmd.Ref, Result: result})
	if then != nil {
		then()
	}
	return false
}

// rest delays the next command of a socket over its rate limit, which would be refused at once.
func rest(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

// read reads a command.
func (d *desk) read(kind int, msg []byte) (wire.Command, error) {
	if kind != websocket.TextMessage {
		return wire.Command{}, errBinary
	}
	cmd, err := wire.DecodeCommand(msg)
	if err == nil && cmd.Op != "run" && int64(len(msg)) > d.t.Body {
		err = errLarge
	}
	return cmd, err
}

// do returns a command's result, and the function to run after the result was sent. A command that has begun is carried through
// when the client disconnects.
func (d *desk) do(ctx context.Context, s *socket, cmd *wire.Command) (result any, then func(), err error) {
	switch cmd.Op {
	case "subscribe":
		return d.subscribe(ctx, s, cmd.ThreadID, cmd.After)
	case "watch":
		return d.watch(ctx, s)
	}
	ctx = context.WithoutCancel(ctx)
	switch cmd.Op {
	case "unsubscribe":
		result, err = d.unsubscribe(cmd.ThreadID)
	case "unwatch":
		result, err = d.unwatch()
	case "run":
		result, err = d.run(ctx, cmd)
	case "append":
		result, err = d.append(ctx, cmd)
	case "cancel":
		result, err = d.cancel(ctx, cmd)
	case "resume":
		result, err = d.resume(ctx, cmd)
	case "event":
		result, err = d.event(ctx, cmd)
	default:
		err = fmt.Errorf("nothing does %q", cmd.Op)
	}
	return result, nil, err
}

// run starts a run that only cancel ends.
func (d *desk) run(ctx context.Context, cmd *wire.Command) (any, error) {
	req, err := cmd.Run()
	if err != nil {
		return nil, err
	}
	if err := inProject(d.who, d.project, req.ProjectID); err != nil {
		return nil, err
	}
	started, err := d.t.Streams.Ownership.StartRun(ctx, d.who, req.StartRequest)
	if err != nil {
		return nil, err
	}
	d.t.Streams.Ownership.Detach(d.who, started)
	return wire.NewStarted(started), nil
}

func (d *desk) append(ctx context.Context, cmd *wire.Command) (any, error) {
	who, err := transports.InStead(d.who, cmd.User, runtime.RoleOperator)
	if err != nil {
		return nil, err
	}
	req, err := cmd.Append()
	if err != nil {
		return nil, err
	}
	run, err := d.t.Runtime.Runs.Get(ctx, who, cmd.RunID) // the answer has its first name
	if err != nil {
		return nil, err
	}
	msg, err := d.t.Runtime.Append(ctx, who, cmd.RunID, req)
	if err != nil {
		return nil, err
	}
	return wire.NewMessage(run.ID, &msg), nil
}

func (d *desk) cancel(ctx context.Context, cmd *wire.Command) (any, error) {
	who, err := transports.InStead(d.who, cmd.User, runtime.RoleOperator)
	if err != nil {
		return nil, err
	}
	run, err := d.t.Runtime.Cancel(ctx, who, cmd.RunID)
	if err != nil {
		return nil, err
	}
	return wire.NewCancelled(&run), nil
}

func (d *desk) resume(ctx context.Context, cmd *wire.Command) (any, error) {
	who, err := transports.InStead(d.who, cmd.User, runtime.RoleOperator)
	if err != nil {
		return nil, err
	}
	entries, err := cmd.Resume()
	if err != nil {
		return nil, err
	}
	run, err := d.t.Runtime.Resume(ctx, who, cmd.RunID, entries)
	if err != nil {
		return nil, err
	}
	return wire.NewResumed(&run), nil
}

func (d *desk) event(ctx context.Context, cmd *wire.Command) (any, error) {
	who, err := transports.InStead(d.who, cmd.User, runtime.RoleOperator)
	if err != nil {
		return nil, err
	}
	req, err := cmd.Event()
	if err != nil {
		return nil, err
	}
	delivered, err := d.t.Runtime.SendEvent(ctx, who, cmd.RunID, req)
	return wire.Delivered{Delivered: delivered}, err
}
