"""An agent that does what its query tells it, a JSON list of steps: for tests."""

import datetime
import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk", "python"))
import baton  # noqa: E402


def tell(run, step, results):
    what, rest = step[0], step[1:]
    if what == "say":
        for word in rest[0].split(" "):
            run.text(word + " ")
    elif what == "flood":
        for _ in range(rest[0]):
            run.text("x" * 1000)
    elif what == "reason":
        run.reason(rest[0])
    elif what == "state":
        run.state(rest[0])
    elif what == "progress":
        run.progress(rest[0], rest[1])
    elif what == "do":
        def work():
            for inner in rest[1]:
                tell(run, inner, results)
            return rest[2]

        results.append("did %s" % json.dumps(run.do(rest[0], work), separators=(",", ":")))
    elif what == "tool":
        out = run.tool(rest[0], rest[1])
        results.append("%s %s" % (out["status"], out["result_summary"]))
    elif what == "tools":
        outs = run.tools(*[tuple(call) for call in rest])
        results.extend(out["result_summary"] for out in outs)
    elif what == "agent":
        results.append(run.agent(rest[0], rest[1])["answer"])
    elif what == "ask":
        results.append("answer %s" % json.dumps(run.ask(rest[0])["payload"], separators=(",", ":")))
    elif what == "sleep":
        run.sleep(rest[0])
        run.sleep_until(datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1))
    elif what == "event":
        got = run.wait_for(*rest)
        results.append("expired" if got["expired"] else "got %s" % json.dumps(got["payload"], separators=(",", ":")))
    elif what == "next":
        results.append("next %s" % ",".join(m["content"] for m in run.next()))
    elif what == "usage":
        run.usage(**rest[0])
    elif what == "emit":
        run.emit(rest[0])
    elif what == "branches":
        def work(key):
            with run.branch(key):
                done[key] = run.do("same", lambda: key.upper())

        done = {}
        threads = [threading.Thread(target=work, args=(key,)) for key in rest]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        results.extend(done[key] for key in rest)
    elif what == "print":
        print(rest[0], flush=True)
    elif what == "env":
        results.append(json.dumps(sorted(os.environ)))
    elif what == "append":
        with open(rest[0], "a") as f:
            f.write("x")
    elif what == "bad":
        bad = {"number": lambda: float("nan"), "cycle": cycle, "object": object, "generator": lambda: (n for n in [])}[rest[0]]()
        def use():
            {"do": lambda: run.do("bad", lambda: bad), "tool": lambda: run.tool("calculator", {"expression": bad}),
             "state": lambda: run.state({"mean": bad}), "answer": lambda: results.append(bad)}[rest[1]]()
        if len(rest) == 2:
            return use()
        try:
            use()
        except (TypeError, ValueError):
            results.append("caught")
    elif what == "typed":
        results.append("%s %s" % (run.do("typed", lambda: (1, 2)), run.do("awaited", awaited)))
    elif what == "loose":
        import subprocess
        import sys as system
        os.write(1, b"no line feed")
        subprocess.run(["sh", "-c", "printf half; cat; kill -0 $$"], check=True)
        results.append("read %r" % system.stdin.read())
    elif what == "fail":
        raise baton.Error(rest[0], rest[1], True)
    elif what == "bug":
        raise ValueError(rest[0])
    elif what == "exit":
        os._exit(rest[0])
    elif what == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1000)  # the other threads stop a moment later
    elif what == "block":
        time.sleep(rest[0])
        sum(range(int(rest[0] * 60_000_000)))  # for about as long, and lets no other thread in
    elif what == "hang":
        run.text("hanging ")
        time.sleep(1000)
    elif what == "wait":
        run.text("waiting ")
        while not run.cancelled:
            time.sleep(0.005)
        run.text("too late")


def cycle():
    value = []
    value.append(value)
    return value


async def awaited():
    return "awaited"


async def agent(run):
    """Does what it is told."""
    results = []
    for step in json.loads(run.query):
        tell(run, step, results)
    if results and not isinstance(results[-1], str):
        return results[-1]
    return {"answer": " ".join(results), "key_points": ["told"]}


@baton.tool("Adds numbers.", {"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
                              "required": ["numbers"]}, idempotent=True)
def add(args):
    return str(sum(args["numbers"]))


@baton.tool("Fails.", approval={"by": "operator", "message": "args.why", "expires": "24h", "edit": False})
def refuse(args):
    raise baton.Error("there is no such thing", "not_found")


baton.serve(agent, tools=[add, refuse])
