// TanStack AI's ChatClient, unmodified, against BATON_URL.
import { test } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { until } from "../until.mjs";

const url = `${process.env.BATON_URL}/api/v1/agui/scripted`;

// opened is a client on a page that shows a thread, which it has from the server.
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

// agrees says that a page that is opened now shows the same.
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
    // The client loses a message that begins with reasoning while it rebuilds it, so that what is told again has none.
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
  // Every answer to the first requests breaks behind a few pieces.
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
        if (done) controller.close();
        else controller.enqueue(value);
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
