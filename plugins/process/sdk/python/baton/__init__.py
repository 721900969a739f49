"""Agents and tools for Baton in Python 3.9 or later, without dependencies.

    import baton

    def score(run):
        rows = run.do("load", load)             # recorded, and not done again after a crash
        run.text(f"{len(rows)} rows: ")         # streams
        out = run.tool("calculator", {"expression": "1 + 1"})
        if run.ask("Publish?")["payload"]["approved"]:
            ...
        return {"answer": "good", "key_points": ["..."]}

    baton.serve(score, description="Scores what it is given")

Each run has its own thread. After a crash or a person's answer the function is replayed from its start with the same
input. Wrap work that must not repeat in run.do, which returns its recorded value on replay; tool, tools, agent, ask, sleep,
wait_for, next and usage are recorded in the same way. So the function must make the same calls in the same order each time; threads need
a run.branch each. An agent, a tool and the function of a do can be async def; the methods of run block all the same.

serve keeps the pipes to Baton to itself: standard input is empty, and standard output goes to standard error, which Baton logs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import datetime
import inspect
import json
import os
import queue
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

_Function = TypeVar("_Function", bound=Callable[..., Any])

PROTOCOL = 1
_WINDOW = 256 * 1024  # characters written before waiting for Baton to handle them


class Error(Exception):
    """An error whose text clients see; the text of other errors is only logged."""

    def __init__(self, message: str, code: str = "failed", retryable: bool = False) -> None:
        super().__init__(message)
        self.code, self.retryable = code, retryable


class Waiting(BaseException):
    """There is no answer yet. Do not catch it: the run is replayed when there is one."""

    code, retryable = "waiting", False


class Ended(BaseException):
    """The run was cancelled or is over. Do not catch it."""

    code, retryable = "ended", False


def tool(description: str = "", parameters: Optional[Dict[str, Any]] = None, *, name: Optional[str] = None,
         idempotent: bool = False, approval: Union[bool, Dict[str, Any]] = False) -> Callable[[_Function], _Function]:
    """Makes a tool from a function of the call's arguments. The function returns the result: a text, a dict like
    Baton's ToolAgentOutput, or any JSON. parameters is the JSON Schema of the arguments, an object. With approval each
    call waits for a person: True, or {"by", "not", "message", "expires", "edit"} as in baton.yaml."""

    def made(fn: _Function) -> _Function:
        fn.tool = {  # type: ignore[attr-defined]
            "name": name or fn.__name__, "description": description, "parameters": parameters,
            "idempotent": idempotent, "approval": approval}
        return fn

    return made


def serve(agent: Optional[Callable[[Run], Any]] = None, *, description: str = "",
          tools: Sequence[Callable[[Dict[str, Any]], Any]] = ()) -> None:
    """Serves an agent and tools until Baton closes standard input. The agent is a function of a Run that returns its
    output: a text, a dict like Baton's WorkerAgentOutput, or None. Call serve once, at the end of the program."""
    lines = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # what the agent and its children read is not a message
    os.close(null)
    os.dup2(2, 1)  # nor is what they print
    _Connection(agent, description, {getattr(fn, "tool")["name"]: fn for fn in tools}, out).read(lines)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(0)  # threads of runs can still be running


_scope = contextvars.ContextVar("baton_scope", default="")


class Run:
    """One run of the agent. Its methods raise Ended once the run is cancelled."""

    def __init__(self, connection: _Connection, run_id: Any, data: Dict[str, Any]) -> None:
        self.input = data  # query, messages, state, tools, context, threadId, runId, user, project, node, ...
        self.query: str = data["query"]
        self._connection, self._id = connection, run_id
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._written = 0
        self._messages = 0
        self._open: Optional[Tuple[str, int]] = None

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self._ended.is_set()

    def text(self, delta: str) -> None:
        """Writes a piece of the answer. Pieces without another event in between are one message."""
        self._say("assistant", delta)

    def reason(self, delta: str) -> None:
        """Writes a piece of reasoning."""
        self._say("reasoning", delta)

    @contextlib.contextmanager
    def message(self, role: str = "assistant", stage: str = "") -> Iterator[Callable[[str], None]]:
        """Returns a function that writes pieces of a separate message, which ends with the block."""
        number = self._number()
        yield lambda delta: self._notify("text", message=number, role=role, stage=stage, delta=delta)
        self._notify("text", message=number, role=role, stage=stage, delta="", end=True)

    def state(self, patch: Dict[str, Any]) -> None:
        """Merges patch into the thread's state (RFC 7396)."""
        self._notify("state", patch=patch)

    def progress(self, fraction: float, message: str = "") -> None:
        """Reports the progress, from 0 to 1."""
        self._notify("progress", fraction=fraction, message=message)

    def emit(self, event: Dict[str, Any]) -> None:
        """Writes an AG-UI event, a dict. An illegal event is refused with an Error."""
        self._request("emit", event=event)

    def do(self, name: str, fn: Callable[[], Any]) -> Any:
        """Calls fn unless it is recorded, and returns its result after a round trip through JSON."""
        begun = self._request("do", name=name)
        if "scope" not in begun:
            return begun.get("value")
        token = _scope.set(begun["scope"])
        try:
            value = json.loads(_encode(_result(fn())))
        except BaseException as err:
            with contextlib.suppress(Error, Ended, Waiting):
                self._request("done", scope=begun["scope"], error=_failure(err))
            raise
        finally:
            _scope.reset(token)
        self._request("done", scope=begun["scope"], value=value)
        return value

    @contextlib.contextmanager
    def branch(self, key: str) -> Iterator[None]:
        """Gives calls in the block separate records, for a thread; the key must be the same on replay."""
        token = _scope.set(self._request("branch", key=key)["scope"])
        try:
            yield
        finally:
            _scope.reset(token)

    def tool(self, name: str, args: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Calls a tool and returns its output, a dict with status and result_summary. A failed tool raises no exception."""
        return self.tools((name, args))[0]

    def tools(self, *calls: Tuple[str, Optional[Dict[str, Any]]]) -> List[Dict[str, Any]]:
        """Makes several calls concurrently, each a pair of name and arguments, and returns their outputs in order."""
        return self._request("tools", calls=[{"name": n, "args": a or {}} for n, a in calls])["outputs"]

    def agent(self, name: str, query: str) -> Dict[str, Any]:
        """Runs another agent inside this run and returns its output, a dict with status and answer."""
        return self._request("agent", name=name, query=query)

    def ask(self, message: str, schema: Optional[Dict[str, Any]] = None, **more: Any) -> Dict[str, Any]:
        """Asks a person and returns a dict with cancelled and the payload of the answer."""
        question = {"message": message, **more}
        if schema is not None:
            question["responseSchema"] = schema
        answer = self._request("ask", question=question)
        return {"cancelled": answer.get("cancelled", False), "payload": answer.get("payload")}

    def sleep(self, seconds: float) -> None:
        """Waits; from two seconds on the run is parked, and the function is replayed afterwards."""
        self._request("sleep", seconds=seconds)

    def sleep_until(self, when: datetime.datetime) -> None:
        """Is sleep until a time. One without a zone is local time."""
        self._request("sleep", until=when.astimezone().isoformat())

    def wait_for(self, name: str, within: Optional[float] = None) -> Dict[str, Any]:
        """Waits for an event that is sent to the run, for so many seconds at most, and returns a dict with expired and its payload."""
        got = self._request("waitFor", name=name, **({} if within is None else {"within": within}))
        return {"expired": got.get("expired", False), "payload": got.get("payload")}

    def next(self) -> List[Dict[str, Any]]:
        """Returns the messages appended since the start or the last next."""
        return self._request("next")["messages"]

    def usage(self, **usage: Any) -> None:
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
        """Sends a notification, or once per window a request, whose response shows that Baton keeps up."""
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
    """The pipes to Baton, and the open requests."""

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
                self._answer(m, self._hello)
                self._beat(m["params"].get("alive"))
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
        hello = {"protocol": PROTOCOL, "alive": True, "tools": [fn.tool for fn in self._tools.values()]}
        if self._agent is not None:
            hello["agent"] = {"description": self._description or (self._agent.__doc__ or "").strip()}
        return hello

    def _beat(self, period):
        """Says in each period that the program lives, whatever its runs do: Baton replaces one that hangs."""

        def beat():
            with contextlib.suppress(OSError, ValueError):  # Baton has gone
                while True:
                    time.sleep(period / 1000)
                    self.send({"method": "alive"})

        if period:
            threading.Thread(target=beat, daemon=True).start()

    def _start(self, m, fn):
        try:
            threading.Thread(target=self._answer, args=(m, fn), daemon=True).start()
        except RuntimeError as err:  # too many threads
            self._fail(m, err)

    def _answer(self, m, fn):
        try:
            self._end(m, {"result": _result(fn())})
        except BaseException as err:
            if not isinstance(err, (Error, Waiting, Ended)):
                with contextlib.suppress(Exception):
                    traceback.print_exc()
            self._fail(m, err)

    def _fail(self, m, err):
        self._end(m, {"error": _failure(err)})

    def _end(self, m, answer):
        line = _line({"id": m["id"], **answer})  # before anything that cannot be taken back
        with self._lock:
            self._runs.pop(m["id"], None)
        self._write(line)

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
        except BaseException:  # invalid JSON is not sent
            with self._lock:
                self._waiting.pop(key, None)
            raise
        if run.cancelled:
            self._cancel(run._id)  # it can have been cancelled before this request was known
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
        self._write(_line(message))

    def _write(self, line):
        with self._lock:
            self._out.write(line)
            self._out.flush()


def _line(message):
    return _encode({"jsonrpc": "2.0", **message}) + "\n"


def _encode(value):
    # JSON has no NaN: a ValueError is better than a line that Baton refuses
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8")  # half of a surrogate pair is not a character


def _result(value):
    """Returns a function's result, that of a coroutine once it has ended."""
    if inspect.iscoroutine(value):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            value = asyncio.run(value)
        else:  # of an agent that is a coroutine itself, whose loop waits
            with concurrent.futures.ThreadPoolExecutor(1) as thread:
                value = thread.submit(contextvars.copy_context().run, asyncio.run, value).result()
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError("a generator is no result: write pieces with run.text, and return the rest")
    return value


def _failure(err):
    try:
        message = str(err)
    except Exception:
        message = ""
    failure = {"code": -32000, "message": message or type(err).__name__}
    if isinstance(err, (Error, Waiting, Ended)):
        failure["data"] = {"code": str(err.code), "retryable": bool(err.retryable)}
    return failure
