import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import test from "node:test";

const program = `
import { serve, BatonError } from ${JSON.stringify(new URL("../dist/baton.js", import.meta.url).href)};
const double = { name: "double", idempotent: true, parameters: { type: "object" }, call: args => ({ result: 2 * args.n }) };
serve(async run => {
  console.log("not a message");
  const value = await run.do("load", () => 3);
  run.text(run.query + run.query);
  if (run.query === "fail") throw new BatonError("no luck", "unlucky", true);
  return { answer: run.query, key_points: [String(value)] };
}, { description: "Says it twice.", tools: [double] });
`;

/** start starts the program; this test is in the place of Baton. */
function start(t) {
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["pipe", "pipe", "ignore"] });
  t.after(() => child.stdin.end());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    send: message => child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n"),
    receive: async () => JSON.parse((await lines.next()).value),
  };
}

test("introduces itself", async t => {
  const p = start(t);
  p.send({ id: 1, method: "initialize", params: { protocol: 1, name: "x" } });
  const { result } = await p.receive();
  assert.deepEqual(result.agent, { description: "Says it twice." });
  assert.deepEqual(result.tools.map(tool => [tool.name, tool.idempotent]), [["double", true]]);
});

test("records work and returns the output", async t => {
  const p = start(t);
  p.send({ id: 1, method: "run", params: { input: { query: "a" } } });
  const begun = await p.receive();
  assert.equal(begun.method, "do");
  p.send({ id: begun.id, result: { value: 7 } }); // there is a record
  assert.equal((await p.receive()).params.delta, "aa");
  assert.deepEqual((await p.receive()).result, { answer: "a", key_points: ["7"] });
});

test("errors have a code", async t => {
  const p = start(t);
  p.send({ id: 1, method: "run", params: { input: { query: "fail" } } });
  p.send({ id: (await p.receive()).id, result: { value: 7 } });
  await p.receive();
  assert.deepEqual((await p.receive()).error.data, { code: "unlucky", retryable: true });
});

test("a tool returns JSON", async t => {
  const p = start(t);
  p.send({ id: 1, method: "call", params: { tool: "double", args: { n: 4 } } });
  assert.deepEqual((await p.receive()).result, { result: 8 });
});
