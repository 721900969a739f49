"""python3 -m unittest discover tests"""

import json
import pathlib
import subprocess
import sys
import unittest

PROGRAM = """
import baton

@baton.tool("doubles a number", {"type": "object"}, idempotent=True)
def double(args):
    return {"result": 2 * args["n"]}

def agent(run):
    "Says it twice."
    print("not a message")
    value = run.do("load", lambda: 3)
    run.text(run.query * 2)
    if run.query == "fail":
        raise baton.Error("no luck", "unlucky", retryable=True)
    return {"answer": run.query, "key_points": [str(value)]}

baton.serve(agent, tools=[double])
"""


class Program:
    """The program, and this test in the place of Baton."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=pathlib.Path(__file__).parents[1], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def receive(self):
        return json.loads(self.process.stdout.readline())


class Serve(unittest.TestCase):
    def test_introduces_itself(self):
        with Program() as p:
            p.send(id=1, method="initialize", params={"protocol": 1, "name": "x"})
            hello = p.receive()["result"]
            self.assertEqual(hello["agent"], {"description": "Says it twice."})
            self.assertEqual([(t["name"], t["idempotent"]) for t in hello["tools"]], [("double", True)])

    def test_records_work_and_returns_output(self):
        with Program() as p:
            p.send(id=1, method="run", params={"input": {"query": "a"}})
            do = p.receive()
            self.assertEqual((do["method"], do["params"]["name"]), ("do", "load"))
            p.send(id=do["id"], result={"value": 7})  # there is a record
            self.assertEqual(p.receive()["params"]["delta"], "aa")
            self.assertEqual(p.receive()["result"], {"answer": "a", "key_points": ["7"]})

    def test_errors_have_a_code(self):
        with Program() as p:
            p.send(id=1, method="run", params={"input": {"query": "fail"}})
            p.send(id=p.receive()["id"], result={"value": 7})
            p.receive()
            self.assertEqual(p.receive()["error"]["data"], {"code": "unlucky", "retryable": True})

    def test_tool_returns_json(self):
        with Program() as p:
            p.send(id=1, method="call", params={"tool": "double", "args": {"n": 4}})
            self.assertEqual(p.receive()["result"], {"result": 8})


if __name__ == "__main__":
    unittest.main()
