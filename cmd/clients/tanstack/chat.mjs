// TanStack AI's ChatClient, unmodified, against BATON_URL.
import { test } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { until } from "../until.mjs";

const url = `${process.env.BATON_URL}/api/v1/agui/scripted`;

// opened is a client on a page that shows a thread loaded from the server.
const opened = (t, threadId, options = {}) => {
  const errors = [];
  const client = new ChatClient({
    connection: fetchServerSentEvents(url, options),
    threadId,
    persistence: true,
    onError: (error) => void errors.push(error),
  });
  client.attach();
  t.after(() => client.dispose());
  return Object.assign(client, { errors, script: (...ops) => client.sendMessage(JSON.stringify({ do: ops })) });
};

const brief = (client) =>
  client
    .getMessages()
    .map(({ role, parts }) => [role, ...parts.map(({ type, content, name, output }) => (type === "text" ? content : `${type} ${name ?? output ?? ""}`.trim()))])
    .map((message) => (message[0] === "user" ? ["user"] : message));
const idle = (client) => until("idle", () => !client.getIsLoading());

// agrees checks that a newly opened page shows the same.
const agrees = async (t, client, threadId) => {
  const other = opened(t, threadId);
  await until("hydrated", () => other.getMessages().length >= client.getMessages().length);
  await idle(other);
  assert.deepEqual(brief(other), brief(client));
  const ids = ({ id }) => id;
  assert.deepEqual(other.getMessages().map(ids), client.getMessages().map(ids));
};

const work = [
  { reason: "let me see" },
  { say: "first of all" },
  { tool: "calculator", args: { expression: "6*7" } },
  { tokens: 60, delayMs: 10 },
  { tool: "sleep", args: { ms: 50 } },
  { say: "done" },
];

test("turns", async (t) => {
  const threadId = randomUUID();
  const client = opened(t, threadId);
  for (const words of ["one", "two"]) await client.script({ say: words });
  assert.deepEqual(brief(client), [["user"], ["assistant", "one"], ["user"], ["assistant", "two"]]);
  await client.script(...work);
  assert.deepEqual(client.errors, []);
  await agrees(t, client, threadId);
});

test("a reload in mid-run, at any moment", async (t) => {
  const threadId = randomUUID();
  const before = opened(t, threadId);
  await before.script({ say: "earlier" });
  const running = before.script(...work);
  const reloads = [];
  for (const length of [4, 5, 6]) {
    await until("writing", () => before.getMessages().length >= length || !before.getIsLoading());
    reloads.push(opened(t, threadId));
  }
  await running;
  for (const reload of reloads) {
    await until("shown to the end", () => brief(reload).at(-1)?.at(-1) === "done");
    await idle(reload);
    // The client loses a message that begins with reasoning when it rebuilds it, so the repeated answer has none.
    const told = brief(before).map((message) => message.filter((part) => !part.startsWith("thinking")));
    assert.deepEqual(brief(reload).map((message) => message.filter((part) => !part.startsWith("thinking"))), told);
    assert.deepEqual(reload.errors, []);
  }
  await agrees(t, before, threadId);
});

test("a page that is closed does not end a run that another has joined", async (t) => {
  const threadId = randomUUID();
  const before = opened(t, threadId);
  void before.script({ tokens: 100, delayMs: 10 }, { say: "to the end" });
  await until("writing", () => before.getMessages().length > 1);
  before.dispose();
  const after = opened(t, threadId);
  await until("at the end", () => brief(after).at(-1)?.at(-1) === "to the end");
  await idle(after);
  await agrees(t, after, threadId);
});

test("a connection that breaks", async (t) => {
  const threadId = randomUUID();
  const asked = [];
  // Every answer to the first requests breaks after a few pieces, or a large one.
  const fetchClient = async (target, init) => {
    asked.push(new Headers(init.headers).get("Last-Event-ID"));
    const response = await fetch(target, init);
    if (init.method !== "POST" || asked.length > 4) return response;
    const reader = response.body.getReader();
    let pieces = 0;
    const body = new ReadableStream({
      async pull(controller) {
        if (pieces++ === 3) {
          await reader.cancel();
          controller.error(new TypeError("terminated"));
          return;
        }
        const { done, value } = await reader.read();
        if (value?.length > 2000) pieces = 3;
        if (done) controller.close();
        else controller.enqueue(value.subarray(0, 2000));
      },
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
  const client = opened(t, threadId, { fetchClient });
  await client.script(...work);
  assert.deepEqual(client.errors, []);
  assert.ok(asked.filter(Boolean).length >= 2, `it came back behind ${asked}`);
  await agrees(t, client, threadId);
});

for (const method of ["POST", "GET"]) {
  test(`a connection that breaks behind the last event of a ${method}`, async (t) => {
    const threadId = randomUUID();
    const asked = [];
    const fetchClient = async (target, init) => {
      const response = await fetch(target, init);
      if (init.method !== method || target.includes("threadId=") || asked.push(new Headers(init.headers).get("Last-Event-ID")) > 1) return response;
      const reader = response.body.getReader();
      const body = new ReadableStream({
        async pull(controller) {
          const { done, value } = await reader.read();
          if (done) controller.error(new TypeError("terminated"));
          else controller.enqueue(value);
        },
      });
      return new Response(body, { status: response.status, headers: response.headers });
    };
    const before = opened(t, threadId, { fetchClient });
    const running = before.script({ tokens: 60, delayMs: 10 }, { say: "done" });
    await until("writing", () => before.getMessages().length > 1);
    const after = opened(t, threadId, { fetchClient });
    await running;
    await until("shown to the end", () => brief(after).at(-1)?.at(-1) === "done");
    await idle(after);
    assert.equal(asked.length, 2);
    assert.ok(asked[1]);
    assert.deepEqual([...before.errors, ...after.errors], []);
    await agrees(t, method === "POST" ? before : after, threadId);
  });
}

test("a connection that breaks while a reloaded page is told of the first reasoning", async (t) => {
  const threadId = randomUUID();
  const before = opened(t, threadId);
  const running = before.script({ reason: "one two three four five six seven", delayMs: 100 }, { say: "so" }, { say: "done" });
  await until("reasoning", () => before.getMessages().length > 1);
  let asked = 0;
  const fetchClient = async (target, init) => {
    const response = await fetch(target, init);
    if (!target.includes("runId=") || asked++ > 0) return response;
    const first = await response.body.getReader().read();
    const body = new ReadableStream({
      pull(controller) {
        if (first.done) controller.error(new TypeError("terminated"));
        else controller.enqueue(first.value);
        first.done = true;
      },
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
  const after = opened(t, threadId, { fetchClient });
  await running;
  await until("shown to the end", () => brief(after).at(-1)?.at(-1) === "done");
  await idle(after);
  assert.equal(asked, 2);
  assert.deepEqual(brief(after).map((message) => message[1]), [undefined, "so", "done"]);
});

test("a question, answered after a reload", async (t) => {
  const threadId = randomUUID();
  const before = opened(t, threadId);
  await before.script({ say: "before" }, { ask: { message: "Deploy?" } }, { say: "after" });
  const [{ id }] = before.getInterrupts();
  const after = opened(t, threadId);
  await until("asked again", () => after.getInterrupts().length === 1);
  assert.equal(after.getInterrupts()[0].id, id);
  await after.resumeInterruptsUnsafe([{ interruptId: id, status: "resolved", payload: { go: true } }]);
  await idle(after);
  assert.deepEqual(after.getInterrupts(), []);
  assert.equal(brief(after).at(-1).at(-1), "after");
  assert.deepEqual(after.errors, []);
  await agrees(t, after, threadId);
  await after.script({ say: "next" });
  assert.equal(brief(after).at(-1).at(-1), "next");
});

// part returns the client's last tool call.
const part = (client) => client.getMessages().flatMap(({ parts }) => parts).findLast(({ type }) => type === "tool-call");

for (const [reloaded, decision, output] of [
  [true, [true, { editedArgs: { to: "test" } }], /^deployed {"to":\s*"test"}/],
  [true, [false], /not approved/],
  [false, [true], /^deployed {"to":\s*"prod"}/],
  [false, [false], /not approved/],
]) {
  test(`an approval, ${decision[0] ? "given" : "refused"} ${reloaded ? "after a reload" : "at once"}`, async (t) => {
    const threadId = randomUUID();
    const before = opened(t, threadId);
    await before.script({ say: "before" }, { tool: "deploy", args: { to: "prod" } }, { say: "after" });
    const client = reloaded ? opened(t, threadId) : before;
    await until("asked", () => client.getInterrupts().length === 1);
    const [asked] = client.getInterrupts();
    assert.equal(part(client).state, "approval-requested");
    assert.deepEqual(part(client).approval, { id: asked.id, needsApproval: true });
    assert.ok(asked.canResolve);
    assert.deepEqual(asked.metadata.input, { to: "prod" });
    asked.resolveInterrupt({ approved: decision[0], ...decision[1] });
    await until("at the end", () => brief(client).at(-1).at(-1) === "after");
    await idle(client);
    assert.deepEqual(client.getInterrupts(), []);
    assert.deepEqual(client.getInterruptErrors?.() ?? [], []);
    assert.deepEqual(client.errors, []);
    const result = client.getMessages().flatMap(({ parts }) => parts).find(({ type }) => type === "tool-result");
    assert.match(result.content, output);
    await agrees(t, client, threadId);
    await client.script({ say: "next" });
    assert.equal(brief(client).at(-1).at(-1), "next");
  });
}

test("an answer that is refused, and then a good one", async (t) => {
  const client = opened(t, randomUUID());
  await client.script({ tool: "deploy", args: { to: "prod" } }, { say: "after" });
  client.getInterrupts()[0].resolveInterrupt({ approved: true, editedArgs: { to: 7 } });
  await until("refused", () => client.errors.length > 0 && !client.getIsLoading() && client.getInterrupts().length === 1);
  client.getInterrupts()[0].resolveInterrupt({ approved: true, editedArgs: { to: "test" } });
  await until("at the end", () => brief(client).at(-1).at(-1) === "after");
  await idle(client);
  assert.deepEqual(client.getInterrupts(), []);
});

test("a reload while a run is queued", async (t) => {
  const other = opened(t, randomUUID());
  void other.script({ tool: "sleep", args: { ms: 600_000 } });
  await until("busy", () => part(other)?.state === "input-complete");
  const threadId = randomUUID();
  const before = opened(t, threadId);
  const asked = before.script({ say: "at last" });
  const queued = `${process.env.BATON_URL}/api/projects/default/agent-runs?status=QUEUED`;
  await until("queued", async () => (await (await fetch(queued)).json()).items.length === 1);
  const after = opened(t, threadId);
  await until("shown", () => after.getMessages().length === 1 && after.getIsLoading());
  other.stop();
  await asked;
  await until("shown to the end", () => brief(after).at(-1).at(-1) === "at last");
  await idle(after);
  assert.deepEqual(after.errors, []);
  await agrees(t, after, threadId);
});
