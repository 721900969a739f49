// HttpAgent, unmodified, against BATON_URL.
import { after, describe, test } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { until } from "../until.mjs";
import { Tracked, agrees, base, brief, connected, get, runsOf, status, texts } from "./agent.mjs";
import { newest, schemas, warnings } from "./client.mjs";

describe("running", { concurrency: true }, () => {
  test("text", async () => {
    const agent = new Tracked("echo");
    const { newMessages } = await agent.ask("hello there, world");
    assert.deepEqual(newMessages.map(brief), [{ id: newMessages[0].id, role: "assistant", content: "hello there, world" }]);
    await agrees(agent, "echo");
  });

  test("a second turn sends the whole history again", async () => {
    const agent = new Tracked("echo");
    for (const words of ["one", "two", "three"]) await agent.ask(words);
    assert.deepEqual(
      agent.messages.map(({ content }) => content),
      ["one", "one", "two", "two", "three", "three"],
    );
    await agrees(agent, "echo");
  });

  test("a client that knows nothing of the thread goes on with it", async () => {
    const first = new Tracked("echo");
    await first.ask("one");
    const second = new Tracked("echo", { threadId: first.threadId });
    await second.ask("two");
    assert.deepEqual(
      second.messages.map(({ content }) => content),
      ["two", "two"],
    );
    const viewer = await connected("echo", first.threadId);
    assert.deepEqual(
      viewer.messages.map(({ content }) => content),
      ["one", "one", "two", "two"],
    );
  });

  test("any name of a thread", async () => {
    const agent = new Tracked("echo", { threadId: "a/b c?d=%2F&ü#..~" });
    for (const words of ["one", "two"]) await agent.ask(words);
    await agrees(agent, "echo");
  });

  test("a first run that brings a conversation", async () => {
    const toolCalls = [{ id: "call", type: "function", function: { name: "look", arguments: "{}" } }];
    const initialMessages = [
      { id: randomUUID(), role: "system", content: "Be brief." },
      { id: randomUUID(), role: "user", content: "Look." },
      { id: randomUUID(), role: "assistant", toolCalls },
      { id: randomUUID(), role: "tool", toolCallId: "call", content: "Nothing." },
      { id: randomUUID(), role: "assistant", content: "There is nothing." },
    ];
    const agent = new Tracked("echo", { initialMessages });
    for (const words of ["one", "two"]) await agent.ask(words);
    await agrees(agent, "echo");
  });

  test("messages in parts", async () => {
    const agent = new Tracked("echo");
    const image = { type: "image", source: { type: "url", value: "https://example.com/a.png", mimeType: "image/png" } };
    await agent.ask([{ type: "text", text: "what is this" }, image]);
    assert.deepEqual(texts(agent), ["what is this"]);
    const viewer = await connected("echo", agent.threadId);
    assert.deepEqual(viewer.messages, agent.messages);
    await agent.ask("and now");
    assert.deepEqual(texts(agent), ["what is this", "and now"]);
  });

  test("two clients on one thread take turns", async () => {
    const one = new Tracked("scripted");
    const first = one.script({ tokens: 50, delayMs: 5 }, { say: "first" });
    await until("at work", () => one.types.includes("TEXT_MESSAGE_CONTENT"));
    const two = new Tracked("scripted", { threadId: one.threadId });
    await two.script({ say: "second" });
    await first;
    assert.equal(texts(one).at(-1), "first");
    assert.deepEqual(texts(two), ["second"]);
    const viewer = await connected("scripted", one.threadId);
    assert.deepEqual(texts(viewer).slice(-2), ["first", "second"]);
    await agrees(viewer, "scripted");
  });

  test("tools", async () => {
    const agent = new Tracked("scripted");
    await agent.script(
      { say: "let me see" },
      { tool: "calculator", args: { expression: "6*7" } },
      { tool: "fail", args: { message: "no" } },
      { say: "done" },
    );
    const tools = agent.messages.filter(({ role }) => role === "tool");
    const calls = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
    assert.deepEqual(
      calls.map(({ function: f }) => f.name),
      ["calculator", "fail"],
    );
    assert.deepEqual(JSON.parse(calls[0].function.arguments), { expression: "6*7" });
    assert.deepEqual(
      tools.map(({ toolCallId }) => toolCallId),
      calls.map(({ id }) => id),
    );
    assert.match(tools[0].content, /42/);
    assert.deepEqual(texts(agent).filter(Boolean), ["let me see", "done"]);
    await agrees(agent, "scripted");
  });

  test("reasoning", async () => {
    const agent = new Tracked("scripted");
    await agent.script({ reason: "hm, so" }, { say: "yes" }, { reason: "hm, again" });
    assert.deepEqual(
      agent.messages.slice(1).map(({ role, content }) => [role, content]),
      [
        ["reasoning", "hm, so"],
        ["assistant", "yes"],
        ["reasoning", "hm, again"],
      ],
    );
    await agrees(agent, "scripted");
    await agent.script({ say: "and yes" });
    await agrees(agent, "scripted");
  });

  test("state", async () => {
    const agent = new Tracked("scripted", { initialState: { mine: { list: [1] } } });
    await agent.script({ state: { n: 1, "a/b": { "~": [1, 2] } } }, { state: { n: null, mine: { more: true } } }, { state: { m: [] } });
    assert.deepEqual(agent.state, { mine: { list: [1], more: true }, "a/b": { "~": [1, 2] }, m: [] });
    await agrees(agent, "scripted");
    agent.setState({ replaced: true });
    await agent.script({ state: { n: 2 } });
    assert.deepEqual(agent.state, { replaced: true, n: 2 });
    await agrees(agent, "scripted");
  });

  test("state of a client that has none", async () => {
    const agent = new Tracked("scripted");
    agent.setState(null);
    await agent.script({ state: { n: 1 } }, { state: { m: 2 } });
    assert.deepEqual(agent.state, { n: 1, m: 2 });
    await agrees(agent, "scripted");
  });

  test("parallel nodes", async () => {
    const agent = new Tracked("demo");
    await agent.ask("rivers");
    for (const type of ["STEP_STARTED", "STEP_FINISHED", "STATE_DELTA", "TOOL_CALL_RESULT", "REASONING_MESSAGE_END", "CUSTOM"]) {
      assert.ok(agent.types.includes(type), `there is a ${type}`);
    }
    assert.equal(agent.state.review, "approved");
    assert.deepEqual(agent.errors, []);
    await agrees(agent, "demo");
  });

  test("a question, answered", async () => {
    const agent = new Tracked("scripted");
    await agent.script({ say: "before" }, { ask: { message: "Deploy?", schema: { type: "object" } } }, { say: "after" });
    const [{ id, message, reason, responseSchema }] = agent.pendingInterrupts;
    assert.deepEqual(
      { message, reason, responseSchema },
      { message: "Deploy?", reason: "input_required", responseSchema: { type: "object" } },
    );
    assert.equal(await status(agent), "WAITING");
    await agrees(agent, "scripted");
    await assert.rejects(agent.runAgent(), /interrupt/i);
    await agent.runAgent({ resume: [{ interruptId: id, status: "resolved", payload: { ok: true } }] });
    assert.deepEqual(agent.pendingInterrupts, []);
    assert.equal(texts(agent)[0], "before");
    assert.equal(texts(agent).at(-1), "after");
    assert.equal((await runsOf(agent)).length, 1);
    await agrees(agent, "scripted");
  });

  test("a question, answered by a client that joined later", async () => {
    const agent = new Tracked("scripted");
    await agent.script({ ask: { message: "Deploy?" } }, { say: "after" });
    const viewer = await connected("scripted", agent.threadId);
    assert.deepEqual(viewer.pendingInterrupts, agent.pendingInterrupts);
    const other = new Tracked("scripted", { threadId: agent.threadId, initialMessages: viewer.messages });
    await other.runAgent({ resume: [{ interruptId: viewer.pendingInterrupts[0].id, status: "cancelled" }] });
    assert.equal(texts(other).at(-1), "after");
    await agrees(other, "scripted");
  });

  test("frontend tools", async () => {
    const agent = new Tracked("scripted");
    const tools = [{ name: "pick", description: "Pick one.", parameters: { type: "object" } }];
    const finished = [];
    await agent.ask(
      JSON.stringify({ do: [{ say: "choose" }, { tool: "pick", args: { of: [1, 2] } }, { say: "thanks" }] }),
      { tools },
      {
        onRunFinishedEvent: ({ event, pendingToolCallIds }) => void finished.push(pendingToolCallIds ?? event.outcome?.type),
      },
    );
    const [call] = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
    assert.equal(call.function.name, "pick");
    assert.equal(await status(agent), "WAITING");
    if (newest) assert.deepEqual(finished, [[call.id]]);
    await agrees(agent, "scripted");
    agent.add({ role: "tool", toolCallId: call.id, content: "2" });
    await agent.runAgent({ tools });
    assert.equal(texts(agent).at(-1), "thanks");
    assert.equal((await runsOf(agent)).length, 1);
    await agrees(agent, "scripted");
  });

  test("a frontend tool that nobody answers", async () => {
    const agent = new Tracked("scripted");
    await agent.ask(JSON.stringify({ do: [{ tool: "pick" }] }), { tools: [{ name: "pick", description: "", parameters: {} }] });
    await agent.script({ say: "next" });
    assert.equal(texts(agent).at(-1), "next");
    const viewer = await connected("scripted", agent.threadId);
    const [failed] = viewer.messages.filter(({ role }) => role === "tool");
    assert.match(failed.content, /interrupted/);
    const seen = viewer.messages.filter((message) => message !== failed); // not from a run of the client
    assert.deepEqual(agent.messages, seen);
    await agrees(viewer, "scripted");
  });

  test("a run that fails", async () => {
    const agent = new Tracked("scripted");
    await agent.script({ say: "so far" }, { fail: "boom", code: "x" });
    assert.deepEqual(
      agent.errors.map(({ message, code }) => ({ message, code })),
      [{ message: "boom", code: "x" }],
    );
    assert.deepEqual(texts(agent), ["so far"]);
    await agrees(agent, "scripted");
    await agent.script({ say: "next" });
    assert.deepEqual(texts(agent), ["so far", "next"]);
    await agrees(agent, "scripted");
  });

  test("requests that are refused", async () => {
    const refused = async (status, code, run) => {
      const error = await run.then(
        () => assert.fail("it was not refused"),
        (error) => error,
      );
      assert.equal(error.status, status, error.message);
      assert.equal(error.payload.code, code);
      assert.match(error.payload.detail, /\w+ \w+/);
    };
    await refused(404, "unknown_agent", new Tracked("nobody").ask("hello"));
    await refused(400, "invalid_name", new Tracked("echo", { threadId: "x".repeat(201) }).ask("hello"));
    await refused(400, "invalid_request", new Tracked("echo", { initialState: [1] }).ask("hello"));
    const waiting = new Tracked("scripted");
    await waiting.script({ ask: { message: "Deploy?" } });
    const { threadId } = waiting;
    await refused(409, "thread_waiting", new Tracked("scripted", { threadId }).ask("hello"));
    const resume = [{ interruptId: "other", status: "cancelled" }];
    await refused(400, "unknown_interrupt", new Tracked("scripted", { threadId }).runAgent({ resume }));
  });

  test("abortRun cancels the run", async () => {
    const agent = new Tracked("scripted");
    const running = agent.script({ say: "so far" }, { tokens: 10, delayMs: 1 }, { tool: "sleep", args: { ms: 60000 } }).catch(() => {});
    await until("in the tool", () => agent.types.includes("TOOL_CALL_END"));
    agent.abortRun();
    await running;
    await until("cancelled", async () => (await status(agent)) === "CANCELLED");
    await agent.script({ say: "next" });
    assert.equal(texts(agent).at(-1), "next");
    assert.equal(texts(agent)[0], "so far");
    await agent.ask("last");
    const viewer = await connected("scripted", agent.threadId);
    assert.deepEqual(viewer.messages.at(-1), agent.messages.at(-1));
  });

  test("a client that joins keeps an aborted run alive", async () => {
    const agent = new Tracked("scripted");
    const running = agent.script({ tokens: 300, delayMs: 5 }, { say: "to the end" }).catch(() => {});
    await until("writing", () => agent.types.includes("TEXT_MESSAGE_CONTENT"));
    agent.abortRun();
    const viewer = await connected("scripted", agent.threadId);
    assert.equal(texts(viewer).at(-1), "to the end");
    assert.equal(await status(agent), "COMPLETED");
    await running;
    await agrees(viewer, "scripted");
  });

  test("capabilities", async () => {
    for (const name of ["echo", "scripted", "demo"]) {
      const capabilities = await get(`/api/v1/agui/${name}/capabilities`);
      const parsed = schemas.AgentCapabilitiesSchema.parse(capabilities);
      if (newest) assert.deepEqual(parsed, capabilities);
    }
  });
});

describe("joining", { concurrency: true }, () => {
  // Joins at every nth event of a run, and compares with a viewer that watched from the start.
  const joins = async (name, nth, content) => {
    const agent = new Tracked(name);
    const viewers = [];
    await agent.ask(
      content,
      {},
      {
        onEvent: () => void (agent.types.length % nth === 0 && viewers.push(connected(name, agent.threadId))),
      },
    );
    assert.ok(viewers.length > 10, `${viewers.length} joined`);
    for (const viewer of await Promise.all(viewers)) {
      assert.deepEqual(viewer.messages, agent.messages);
      assert.deepEqual(viewer.state, agent.state);
      assert.match(viewer.types.at(-1), /^RUN_(FINISHED|ERROR)$/);
    }
    await agrees(agent, name);
  };
  const all = [
    { reason: "let me see what there is", delayMs: 2 },
    { say: "first of all", delayMs: 2 },
    { state: { n: 1 } },
    { tokens: 40, delayMs: 2 },
    { progress: 0.5 },
    { tool: "sleep", args: { ms: 30 } },
    { tool: "fail", args: { message: "no" } },
    { state: { n: 2, m: { x: [1] } } },
    { reason: "and so", delayMs: 2 },
  ];
  test("joining at any moment", () => joins("scripted", 2, JSON.stringify({ do: [...all, { say: "done" }] })));
  test("joining a run that fails", () => joins("scripted", 4, JSON.stringify({ do: [...all, { fail: "boom" }] })));
  test("joining a run that ends with a question", () =>
    joins("scripted", 4, JSON.stringify({ do: [...all, { ask: { message: "Go on?" } }] })));
  test("joining parallel nodes", () => joins("demo", 8, "rivers"));

  test("joining an unknown thread", async () => {
    const viewer = await connected("echo", randomUUID());
    assert.deepEqual([viewer.messages, viewer.state, viewer.errors], [[], {}, []]);
    assert.equal((await fetch(`${base}/api/v1/agent/runs/${viewer.threadId}/events`)).status, 404);
  });

  test("joining replaces an older copy", async () => {
    const agent = new Tracked("echo");
    await agent.ask("one");
    const viewer = await connected("echo", agent.threadId);
    await agent.ask("two");
    await viewer.connectAgent();
    assert.deepEqual(viewer.messages, agent.messages);
  });
});

// unhandled returns unhandled rejections during a test. When a stream breaks, runAgent rejects and the client also cancels the broken
// stream in an inaccessible promise, which rejects once more.
const unhandled = (t) => {
  const event = "unhandledRejection";
  const runner = process.listeners(event);
  const errors = [];
  process.removeAllListeners(event).on(event, (error) => void errors.push(error));
  t.after(() => {
    process.removeAllListeners(event);
    for (const listener of runner) process.on(event, listener);
  });
  return errors;
};

test("a crash of the server", async (t) => {
  const left = unhandled(t);
  const agent = new Tracked("scripted");
  const running = agent
    .script({ state: { n: 1 } }, { say: "before" }, { tokens: 300, delayMs: 5 }, { tool: "clock" }, { say: "after" })
    .then(() => "complete", () => "cut");
  await until("writing", () => texts(agent).length > 1);
  assert.equal((await fetch(process.env.CRASH_URL, { method: "POST" })).status, 200);
  assert.equal(await running, "cut");
  await until("cancelled by the client", () => left.length > 0);
  assert.deepEqual(left.map(String), ["TypeError: terminated"]);
  const viewer = await connected("scripted", agent.threadId);
  assert.equal(texts(viewer).at(-1), "after");
  assert.equal(await status(viewer), "COMPLETED");
  await agrees(viewer, "scripted");
  const next = new Tracked("scripted", { threadId: agent.threadId, initialMessages: agent.messages, initialState: agent.state });
  await next.script({ say: "next" });
  assert.equal(texts(next).at(-1), "next");
});

after(() => assert.deepEqual([...new Set(warnings)], []));
