package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// taskExtension is the name of tasks in the protocols since 2026-07-28. In that of 2025-11-25 they are a part of the protocol.
const taskExtension = "io.modelcontextprotocol/tasks"

const (
	minPoll     = time.Second // between two polls of a task
	maxPoll     = 30 * time.Second
	maxUnheard  = 10        // failed looks in a row, after which a task is given up
	maxTaskRest = time.Hour // for which a server keeps a task after the end of its call
)

// wireTask is the state of a task with members of any type. The names with Ms, the result and what follows are the extension's.
type wireTask struct {
	TaskID         json.RawMessage `json:"taskId"`
	Status         json.RawMessage `json:"status"`
	StatusMessage  json.RawMessage `json:"statusMessage"`
	PollInterval   json.RawMessage `json:"pollInterval"`
	PollIntervalMs json.RawMessage `json:"pollIntervalMs"`

	Result        json.RawMessage            `json:"result"`
	Error         json.RawMessage            `json:"error"`
	InputRequests map[string]json.RawMessage `json:"inputRequests"`
}

// pause returns the time until the next poll.
func (w *wireTask) pause() time.Duration {
	var ms float64
	_ = json.Unmarshal([]byte(cmp.Or(word(w.PollInterval), word(w.PollIntervalMs))), &ms)
	return time.Duration(min(max(ms, float64(minPoll.Milliseconds())), float64(maxPoll.Milliseconds()))) * time.Millisecond
}

// startedTask returns the task that a server has begun instead of a result, nil for a result. asked is set if a task was asked for.
func startedTask(result json.RawMessage, asked bool) *wireTask {
	var res struct {
		wireTask
		wireResult
		ResultType json.RawMessage `json:"resultType"`
		Task       json.RawMessage `json:"task"`
	}
	_ = json.Unmarshal(result, &res)
	task := new(wireTask)
	switch {
	case given(res.Content) || given(res.Structured) || given(res.IsError):
	case word(res.ResultType) == "task":
		task = &res.wireTask
	case asked:
		_ = json.Unmarshal(res.Task, task)
	}
	if word(task.TaskID) == "" {
		return nil
	}
	return task
}

// asTask returns the parameter that asks a server to execute a call as a task, nil if it must not be asked.
func (t *tool) asTask(ctx context.Context, conn *connection) json.RawMessage {
	if t.tasks != "required" && (t.tasks != "optional" || !conn.tap.hasTasks()) {
		return nil
	}
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now()
	}
	return encoded(map[string]int64{"ttl": (time.Until(end) + maxTaskRest).Milliseconds()})
}

// hasTasks reports whether the server executes calls as tasks.
func (t *tap) hasTasks() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.able
}

// tasks are the unfinished tasks of the calls in flight.
type tasks struct {
	mu sync.Mutex        // guards of
	of map[*asker]string // the task of a call, "" for none yet
}

// enter adds a call. leave removes it, and returns its unfinished task.
func (t *tasks) enter(a *asker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[a] = ""
}

func (t *tasks) leave(a *asker) (unfinished string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer delete(t.of, a)
	return t.of[a]
}

// begun records the task of a call that is still in flight, and over that it has ended.
func (t *tasks) begun(a *asker, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.of[a]; ok {
		t.of[a] = id
	}
}

func (t *tasks) over(a *asker) { t.begun(a, "") }

// asking returns the calls that have a task, or the task id unless that is "".
func (t *tasks) asking(id string) (from []*asker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a, task := range t.of {
		if task != "" && (id == "" || task == id) {
			from = append(from, a)
		}
	}
	return from
}

// errLostTask is the error of a task that its server does not know any more.
var errLostTask = errors.New("the task is lost")

// resumed waits for the task that the call has begun in an earlier process. It reports false if the call has to be made.
func (t *tool) resumed(ctx context.Context, a *asker) (agui.ToolOutput, bool, error) {
	if json.Unmarshal(a.call.Kept, &a.memory) != nil || a.Task == "" {
		a.memory = newMemory()
		return agui.ToolOutput{}, false, nil
	}
	t.server.tasks.begun(a, a.Task)
	out, err := t.await(ctx, a, a.Task, 0)
	switch {
	case !errors.Is(err, errLostTask):
		return out, true, err
	case t.info.Idempotent:
		return out, false, a.forget()
	}
	return out, true, &plugins.Error{Code: "interrupted", Message: "The tool server does not know the task of the call any more; whether it was done is unknown"}
}

// begun waits for a task that the server has begun.
func (t *tool) begun(ctx context.Context, a *asker, task *wireTask) (agui.ToolOutput, error) {
	id := word(task.TaskID)
	a.mu.Lock()
	a.Task = id
	a.mu.Unlock()
	if err := a.remember(); err != nil {
		return agui.ToolOutput{}, err
	}
	out, err := t.await(ctx, a, id, task.pause())
	if errors.Is(err, errLostTask) {
		err = &plugins.Error{Code: "tool_failed", Message: "The tool server does not know the task of the call any more"}
	}
	return out, err
}

// await polls a task until its end, while the run lends its slot.
func (t *tool) await(ctx context.Context, a *asker, id string, pause time.Duration) (out agui.ToolOutput, err error) {
	err = a.call.Idle(ctx, func() (err error) {
		out, err = t.poll(ctx, a, id, pause)
		return err
	})
	return out, err
}

// withdrawal is the limit of the request that cancels a task, below the time after which a call counts as abandoned.
const withdrawal = 4 * time.Second

// settle returns the error of a call. It cancels a task that has not ended, but not when Baton stops: the run continues then. The
// call of a tool that had a task and is not idempotent must not be made again.
func (t *tool) settle(ctx context.Context, a *asker, err error) error {
	id, had := t.server.tasks.leave(a), a.hasTask()
	if id != "" && (a.waiting() || endsForEver(ctx)) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawal)
		defer cancel()
		_, _, _ = t.taskRequest(last, nil, "tasks/cancel", &taskParams{TaskID: id})
	}
	if had && a.waiting() {
		return errors.Join(plugins.ErrWaiting, a.forget())
	}
	if e, ok := errors.AsType[*plugins.Error](err); ok && e.Retryable && (had || id != "") && !t.info.Idempotent {
		return &plugins.Error{Code: e.Code, Message: e.Message}
	}
	return err
}

// endsForEver reports whether a call ends for ever, and not with this process.
func endsForEver(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause == nil || errors.Is(cause, plugins.ErrCancelled) || errors.Is(cause, plugins.ErrEnded) || errors.Is(cause, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// poll returns the output of a task once it has ended.
func (t *tool) poll(ctx context.Context, a *asker, id string, pause time.Duration) (agui.ToolOutput, error) {
	for misses := 0; ; {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return agui.ToolOutput{}, context.Cause(ctx)
		}
		out, next, err := t.look(ctx, a, id)
		if cause := context.Cause(ctx); cause != nil {
			return agui.ToolOutput{}, cause
		}
		pause = cmp.Or(next, max(pause, minPoll))
		missed, ok := errors.AsType[unheard](err)
		switch {
		case errors.Is(err, errUnfinished):
			misses = 0
		case !ok:
			return out, err
		default:
			if misses++; misses == maxUnheard {
				return out, missed.why()
			}
		}
	}
}

// errUnfinished is the error of a task that has not ended yet.
var errUnfinished = errors.New("the task has not ended")

// unheard is the passing failure of a request about a task.
type unheard struct{ why func() error }

func (unheard) Error() string { return "the request about the task failed" }

// missed returns the error of a request without a result: errLostTask or unheard.
func (t *tool) missed(ctx context.Context, conn *connection, refused *refusal, err error, a *asker) error {
	switch {
	case refused == nil:
		return unheard{func() error { return t.away(ctx, err) }}
	case refused.lostTask():
		t.server.tasks.over(a)
		return errLostTask
	}
	return unheard{func() error { return t.refused(conn, refused, a) }}
}

// lostTask matches servers' sentences about a task that they do not know.
var lostTask = regexp.MustCompile(`(?i)\btask\b.*\b(not found|unknown|expired|not exist|no longer)\b|\b(no such|unknown|expired) task\b|^not found`)

// lostTask reports whether the server does not know the task. Only an error of the protocol proves that.
func (r *refusal) lostTask() bool {
	return r.status == 0 && (r.code == jsonrpc.CodeInvalidParams || r.code != jsonrpc.CodeMethodNotFound && lostTask.MatchString(r.said))
}

// look returns the output of a task that has ended, or errUnfinished, and the time until the next look.
func (t *tool) look(ctx context.Context, a *asker, id string) (out agui.ToolOutput, pause time.Duration, err error) {
	conn, x, err := t.taskRequest(ctx, nil, "tasks/get", &taskParams{TaskID: id})
	state, refused, _ := x.outcome()
	if state == nil {
		return out, 0, t.missed(ctx, conn, refused, err, a)
	}
	var task wireTask
	_ = json.Unmarshal(state, &task)
	pause = task.pause()
	status, said := strings.ToLower(word(task.Status)), t.server.secrets.Hide(word(task.StatusMessage))
	failed, cancelled := status == "failed", strings.HasPrefix(status, "cancel")
	known := failed || status == "completed" || status == "input_required"
	switch {
	case status == "working", status == "input_required" && len(task.InputRequests) > 0 && len(a.unanswered(task.InputRequests)) == 0:
		return out, pause, errUnfinished
	case cancelled:
		t.server.tasks.over(a)
		return out, 0, &plugins.Error{Code: "tool_failed", Message: clip("The tool server has cancelled the task: "+said, maxMessage)}
	case given(task.Result):
	case given(task.Error):
		t.server.tasks.over(a)
		e := conn.tap.fault(task.Error)
		return out, 0, t.refused(conn, &refusal{code: e.Code, said: cmp.Or(e.Message, said), data: e.Data}, a)
	case len(task.InputRequests) > 0:
		return out, pause, t.update(ctx, a, id, task.InputRequests)
	default: // the result of the protocol of 2025-11-25, which can ask a person before
		conn, x, err = t.taskRequest(ctx, a, "tasks/result", &taskParams{TaskID: id})
		task.Result, refused, _ = x.outcome()
		switch {
		case a.waiting():
			return out, 0, plugins.ErrWaiting
		case task.Result != nil:
		case failed && refused != nil && refused.status == 0:
			t.server.tasks.over(a)
			return out, 0, t.refused(conn, &refusal{code: refused.code, said: cmp.Or(said, refused.said), data: refused.data}, a)
		default:
			return out, pause, t.missed(ctx, conn, refused, err, a)
		}
	}
	out = output(task.Result, a)
	if !known && out.ResultSummary == "" && out.Parts == nil {
		return agui.ToolOutput{}, pause, unheard{func() error {
			return &plugins.Error{Code: "tool_failed", Message: clip(fmt.Sprintf("The tool server tells the status %q of the task, and no result", status), maxMessage)}
		}}
	}
	t.server.tasks.over(a)
	if failed && out.Status != agui.StatusFailure {
		out.Status = agui.StatusFailure
		out.Error = &agui.OutputError{Code: "tool_failed", Message: clip(cmp.Or(said, out.ResultSummary, "The task failed"), maxMessage)}
	}
	return out, 0, nil
}

// update asks a person the task's questions and sends it the answers. If that fails, the next look does it again.
func (t *tool) update(ctx context.Context, a *asker, id string, requests map[string]json.RawMessage) error {
	requests = a.unanswered(requests)
	responses := a.fulfil(requests)
	if told, sure := a.declined(); sure {
		return &plugins.Error{Code: codeDeclined, Message: told}
	}
	if a.waiting() {
		return plugins.ErrWaiting
	}
	conn, x, err := t.taskRequest(ctx, nil, "tasks/update", &taskParams{TaskID: id, InputResponses: responses})
	result, refused, _ := x.outcome()
	if result == nil {
		return t.missed(ctx, conn, refused, err, a)
	}
	for name, raw := range requests {
		a.heard[a.identity(name, raw)] = true
	}
	return errUnfinished
}

// taskParams are the parameters of requests about a task.
type taskParams struct {
	sdk.ParamsBase
	TaskID         string               `json:"taskId"`
	InputResponses sdk.InputResponseMap `json:"inputResponses,omitempty"`
}

// noResult has nothing, because results are read by the tap.
type noResult struct{ sdk.ResultBase }

var taskMethods = []string{"tasks/get", "tasks/result", "tasks/update", "tasks/cancel"}

// allowTasks makes a client able to send the requests about tasks.
func allowTasks(client *sdk.Client) error {
	for _, method := range taskMethods {
		if err := sdk.AddSendingCustomMethod[*taskParams, *noResult](client, method); err != nil {
			return fmt.Errorf("method %s: %w", method, err)
		}
	}
	return nil
}

// taskRequest makes a request about a task. a is its call if the server can ask a person until it responds. The exchange has no
// outcome if there was no response.
func (t *tool) taskRequest(ctx context.Context, a *asker, method string, params *taskParams) (*connection, *exchange, error) {
	conn, x, err := t.request(ctx, func(c *connection) (*exchange, error) {
		ctx, x := withExchange(ctx)
		x.asker = a
		_, err := sdk.CallCustomMethod[*taskParams, *noResult](ctx, c.session, method, params)
		c.tap.leave(x)
		return x, err
	})
	if x == nil {
		x = new(exchange)
	}
	return conn, x, err
}
