"""Agents and tools for Baton in Python 3.9 or later. Needs nothing but this file.

    import baton

    def score(run):
        rows = run.do("load", load)             # done once, whatever crashes
        run.text(f"{len(rows)} rows: ")         # streams
        out = run.tool("calculator", {"expression": "1 + 1"})
        if run.ask("Publish?")["payload"]["approved"]:
            ...
        return {"answer": "good", "key_points": ["..."]}

    baton.serve(score, description="Scores what it is given")

A run is served in a thread of its own. The function is called again from its start, with the same input, when the
process died or a person has answered: what need not be done again stands in run.do, which returns its recorded value
the second time; tool, tools, agent, ask, next and usage are recorded likewise. So it must come to the same calls in
the same order each time; threads take a run.branch each. What it says to standard output goes to standard error,
which is in Baton's log.
"""

import contextlib
import contextvars
import json
import os
import queue
import sys
import threading
import traceback

PROTOCOL = 1
_WINDOW = 256 * 1024  # characters that are written before one waits for Baton to have taken them


class Error(Exception):
    """An error that people are shown; the text of any other stays in the log."""

    def __init__(self, message, code="failed", retryable=False):
        super().__init__(message)
        self.code, self.retryable = code, retryable


class Waiting(BaseException):
    """There is no answer yet. Let it pass: the run is called again when there is."""

    code, retryable = "waiting", False


class Ended(BaseException):
    """The run was cancelled, or is over. Let it pass."""

    code, retryable = "ended", False


def tool(description="", parameters=None, *, name=None, idempotent=False, approval=False):
    """Makes a tool of a function of one argument, the call's arguments. What it returns is the result: a text, a
    dict like Baton's ToolAgentOutput, or any JSON. parameters is the JSON Schema of the arguments, an object's."""

    def made(fn):
        fn.tool = {"name": name or fn.__name__, "description": description, "parameters": parameters,
                   "idempotent": idempotent, "approval": approval}
        return fn

    return made


def serve(agent=None, *, description="", tools=()):
    """Serves an agent, a function of a Run that returns its answer (a text, a dict like Baton's WorkerAgentOutput, or
    None), and tools, until Baton closes standard input. Call it once, at the end of the program."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)  # what anybody prints is no message
    _Connection(agent, description, {fn.tool["name"]: fn for fn in tools}, out).read(sys.stdin.buffer)
    os._exit(0)  # threads of runs may still be at work


_scope = contextvars.ContextVar("baton_scope", default="")


class Run:
    """One run of the agent. Its methods raise Ended once the run is cancelled."""

    def __init__(self, connection, run_id, data):
        self.input = data  # query, messages, state, tools, context, threadId, runId, user, project, node, ...
        self.query = data["query"]
        self._connection, self._id = connection, run_id
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._written = 0
        self._messages = 0
        self._open = None

    @property
    def cancelled(self):
        """Whether nobody waits for the run any more."""
        return self._ended.is_set()

    def text(self, delta):
        """Writes a piece of the answer. It is one message until another event comes between."""
        self._say("assistant", delta)

    def reason(self, delta):
        """Writes a piece of what the agent thinks."""
        self._say("reasoning", delta)

    @contextlib.contextmanager
    def message(self, role="assistant", stage=""):
        """Gives a function that writes pieces of a message of its own, which ends with the block."""
        number = self._number()
        yield lambda delta: self._notify("text", message=number, role=role, stage=stage, delta=delta)
        self._notify("text", message=number, role=role, stage=stage, delta="", end=True)

    def state(self, patch):
        """Merges patch into the thread's state, as RFC 7396 has it."""
        self._notify("state", patch=patch)

    def progress(self, fraction, message=""):
        """Says how far the run is, from 0 to 1."""
        self._notify("progress", fraction=fraction, message=message)

    def emit(self, event):
        """Writes an AG-UI event, a dict. One that is illegal now is refused with an Error."""
        self._request("emit", event=event)

    def do(self, name, fn):
        """Calls fn unless there is a record of it, and returns what it returned, as JSON keeps it."""
        begun = self._request("do", name=name)
        if "scope" not in begun:
            return begun.get("value")
        token = _scope.set(begun["scope"])
        try:
            value = fn()
        except BaseException as err:
            with contextlib.suppress(Error, Ended, Waiting):
                self._request("done", scope=begun["scope"], error=_failure(err))
            raise
        finally:
            _scope.reset(token)
        self._request("done", scope=begun["scope"], value=value)
        return json.loads(json.dumps(value))

    @contextlib.contextmanager
    def branch(self, key):
        """Gives what is called in the block records of its own: for a thread, with a key that is the same each time."""
        token = _scope.set(self._request("branch", key=key)["scope"])
        try:
            yield
        finally:
            _scope.reset(token)

    def tool(self, name, args=None):
        """Calls a tool and returns its output, a dict with status and result_summary. A tool that fails raises nothing."""
        return self.tools((name, args))[0]

    def tools(self, *calls):
        """Makes several calls at once, each a pair of a name and arguments, and returns their outputs in that order."""
        return self._request("tools", calls=[{"name": n, "args": a or {}} for n, a in calls])["outputs"]

    def agent(self, name, query):
        """Runs another agent inside of this run and returns its output, a dict with status and answer."""
        return self._request("agent", name=name, query=query)

    def ask(self, message, schema=None, **more):
        """Asks a person, and returns a dict: cancelled, and the payload that they gave."""
        question = {"message": message, **more}
        if schema is not None:
            question["responseSchema"] = schema
        answer = self._request("ask", question=question)
        return {"cancelled": answer.get("cancelled", False), "payload": answer.get("payload")}

    def next(self):
        """Takes the messages that came since the start or the last next."""
        return self._request("next")["messages"]

    def usage(self, **usage):
        """Counts tokens: provider, model, inputTokens, outputTokens, ..."""
        self._request("usage", usage=usage)

    def _number(self):
        with self._lock:
            self._messages += 1
            return self._messages

    def _say(self, role, delta):
        if not delta:
            return
        if self._open is None or self._open[0] != role:
            self._open = (role, self._number())
        self._notify("text", message=self._open[1], role=role, delta=delta)

    def _notify(self, method, **params):
        """Sends what has no answer, but for one message in a window: its answer says that Baton keeps up."""
        with self._lock:
            self._written += len(params.get("delta", "")) + 200
            full = self._written > _WINDOW
            if full:
                self._written = 0
        if full:
            self._request(method, **params)
            return
        self._alive()
        self._connection.send({"method": method, "params": {"run": self._id, **params}})

    def _request(self, method, **params):
        self._alive()
        if _scope.get():
            params.setdefault("in", _scope.get())
        return self._connection.ask(self, method, {"run": self._id, **params})

    def _alive(self):
        if self.cancelled:
            raise Ended("the run is over")


class _Connection:
    """The pipes to Baton, and who waits for what from there."""

    def __init__(self, agent, description, tools, out):
        self._agent, self._description, self._tools, self._out = agent, description, tools, out
        self._lock = threading.Lock()  # guards the members below, and writing
        self._asked = 0
        self._waiting = {}  # queues of requests to Baton, by id: (run, queue)
        self._runs = {}  # by the id of the request

    def read(self, lines):
        for line in lines:
            if not line.strip():
                continue
            m = json.loads(line)
            if "method" not in m:
                with self._lock:
                    _, answer = self._waiting.pop(m["id"], (None, None))
                if answer is not None:
                    answer.put(m)
            elif m["method"] == "cancel":
                self._cancel(m["params"]["id"])
            elif m["method"] == "initialize":
                self._answer(m, lambda: self._hello())
            elif m["method"] == "run" and self._agent is not None:
                run = Run(self, m["id"], m["params"]["input"])
                with self._lock:
                    self._runs[m["id"]] = run
                self._start(m, lambda run=run: self._agent(run))
            elif m["method"] == "call" and m["params"]["tool"] in self._tools:
                fn, args = self._tools[m["params"]["tool"]], m["params"]["args"]
                self._start(m, lambda fn=fn, args=args: fn(args))
            elif "id" in m:
                self.send({"id": m["id"], "error": {"code": -32601, "message": "no method " + m["method"]}})

    def _hello(self):
        hello = {"protocol": PROTOCOL, "tools": [fn.tool for fn in self._tools.values()]}
        if self._agent is not None:
            hello["agent"] = {"description": self._description or (self._agent.__doc__ or "").strip()}
        return hello

    def _start(self, m, fn):
        threading.Thread(target=self._answer, args=(m, fn), daemon=True).start()

    def _answer(self, m, fn):
        try:
            answer = {"id": m["id"], "result": fn()}
            json.dumps(answer, allow_nan=False)
        except BaseException as err:
            if not isinstance(err, (Error, Waiting, Ended)):
                traceback.print_exc()
            answer = {"id": m["id"], "error": _failure(err)}
        with self._lock:
            self._runs.pop(m["id"], None)
        self.send(answer)

    def _cancel(self, request):
        with self._lock:
            run = self._runs.get(request)
            left = [key for key, (owner, _) in self._waiting.items() if owner is run]
            answers = [self._waiting.pop(key)[1] for key in left] if run is not None else []
        if run is None:
            return
        run._ended.set()
        for answer in answers:
            answer.put({"error": {"message": "the run is over", "data": {"code": "ended"}}})

    def ask(self, run, method, params):
        answer = queue.SimpleQueue()
        with self._lock:
            self._asked += 1
            key = "b%d" % self._asked
            self._waiting[key] = (run, answer)
        try:
            self.send({"id": key, "method": method, "params": params})
        except (TypeError, ValueError):  # of what is no JSON nothing is sent
            with self._lock:
                self._waiting.pop(key, None)
            raise
        if run.cancelled:
            self._cancel(run._id)  # it may have been cancelled before anybody knew of this request
        m = answer.get()
        if "error" not in m:
            return m["result"]
        data = m["error"].get("data") or {}
        code = data.get("code", "failed")
        if code == "waiting":
            raise Waiting(m["error"]["message"])
        if code in ("cancelled", "stopping", "ended"):
            raise Ended(m["error"]["message"])
        raise Error(m["error"]["message"], code, data.get("retryable", False))

    def send(self, message):
        # JSON has no NaN: a ValueError is better than a line that Baton passes over
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = line.encode("utf-8", "replace").decode("utf-8")  # half of a surrogate pair is no character
        with self._lock:
            self._out.write(line + "\n")
            self._out.flush()


def _failure(err):
    failure = {"code": -32000, "message": str(err) or type(err).__name__}
    if isinstance(err, (Error, Waiting, Ended)):
        failure["data"] = {"code": err.code, "retryable": err.retryable}
    return failure
