// Chromium with a page of an allowed origin (PAGE), of another one (STRANGER), and Baton at BATON_URL.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { launch } from "./launch.mjs";

const { BATON_URL: base, PAGE, STRANGER } = process.env;

let browser, page, stranger;
before(async () => {
  browser = await launch();
  const open = async (url) => {
    const page = await browser.newPage();
    page.setDefaultTimeout(600_000);
    await page.goto(url);
    await page.evaluate(define);
    return page;
  };
  [page, stranger] = await Promise.all([open(PAGE), open(STRANGER)]);
});
after(() => browser.close());

// Functions of a page; they run in the browser.
function define() {
  // start starts a run of the agent scripted.
  window.start = async (base, threadId, script, headers) => {
    const body = JSON.stringify({ agent: "scripted", threadId, content: JSON.stringify(script) });
    const response = await fetch(base + "/api/v1/agent/runs", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body,
    });
    return { status: response.status, text: await response.text() };
  };

  // watch follows a thread until the server answers that there is no more.
  window.watch = (base, threadId, query = "") => {
    const source = new EventSource(`${base}/api/v1/agent/runs/${threadId}/events${query}`);
    const seen = (window.seen = { opened: 0, unnamed: 0, events: [] });
    source.onopen = () => seen.opened++;
    source.onmessage = () => seen.unnamed++;
    const types = [
      "RUN_STARTED",
      "RUN_FINISHED",
      "RUN_ERROR",
      "STEP_STARTED",
      "STEP_FINISHED",
      "TEXT_MESSAGE_START",
      "TEXT_MESSAGE_CONTENT",
      "TEXT_MESSAGE_END",
      "TOOL_CALL_START",
      "TOOL_CALL_ARGS",
      "TOOL_CALL_END",
      "TOOL_CALL_RESULT",
      "STATE_SNAPSHOT",
      "STATE_DELTA",
      "MESSAGES_SNAPSHOT",
      "REASONING_START",
      "REASONING_MESSAGE_START",
      "REASONING_MESSAGE_CONTENT",
      "REASONING_MESSAGE_END",
      "REASONING_END",
      "CUSTOM",
    ];
    for (const type of types) {
      source.addEventListener(type, ({ data, lastEventId }) =>
        seen.events.push({ type, id: Number(lastEventId), event: JSON.parse(data) }),
      );
    }
    seen.closed = new Promise((resolve) => {
      source.onerror = () => source.readyState === EventSource.CLOSED && resolve();
    });
  };

  // mirror follows a thread over a WebSocket.
  window.mirror = (base, threadId, query = "", protocols = []) =>
    new Promise((resolve) => {
      const socket = new WebSocket(`${base.replace("http", "ws")}/api/v1/agent/runs/${threadId}/ws${query}`, protocols);
      const frames = [];
      socket.onmessage = ({ data }) => frames.push(JSON.parse(data));
      socket.onclose = ({ code }) => resolve({ code, frames, protocol: socket.protocol });
    });
}

const watched = async (threadId, query) => {
  await page.evaluate(([base, threadId, query]) => watch(base, threadId, query), [base, threadId, query]);
  await page.evaluate(() => seen.closed);
  return page.evaluate(() => ({ ...seen, closed: undefined }));
};

// The thread's log as it is on the server.
const log = async (threadId) => {
  const text = await (await fetch(`${base}/api/v1/agent/runs/${threadId}/events`)).text();
  return [...text.matchAll(/^id: (\d+)\nevent: (.+)\ndata: (.+)$/gm)].map(([, id, type, data]) => ({
    type,
    id: Number(id),
    event: JSON.parse(data),
  }));
};

const start = (page, threadId, script, headers = {}) =>
  page.evaluate(([base, threadId, script, headers]) => window.start(base, threadId, script, headers), [base, threadId, script, headers]);

test("EventSource resumes by itself when the server is killed, and stops when there is no more", async () => {
  const { status } = await start(page, "killed", {
    do: [{ say: "before" }, { tokens: 600, delayMs: 10 }, { reason: "after" }, { tool: "clock" }, { state: { n: 1 } }],
  });
  assert.equal(status, 202);
  const all = watched("killed");
  await page.waitForFunction(() => window.seen?.events.length > 40, undefined, { polling: 20 });
  assert.equal((await fetch(PAGE + "/crash", { method: "POST" })).status, 200);
  const { opened, unnamed, events } = await all;
  assert.ok(opened > 1, "it reconnected");
  assert.equal(unnamed, 0);
  assert.deepEqual(
    events.map(({ id }) => id),
    events.map((_, i) => i + 1),
  );
  assert.ok(events.every(({ type, event }) => type === event.type));
  assert.equal(events.at(-1).type, "RUN_FINISHED");
  assert.deepEqual(events, await log("killed"));
});

test("EventSource goes on behind a cursor", async () => {
  await start(page, "cursor", { do: [{ tokens: 20 }] }, { Accept: "text/event-stream" });
  const { events } = await watched("cursor", "?after_event_id=5");
  assert.deepEqual(events, (await log("cursor")).slice(5));
});

test("fetch reads the stream that answers a request", async () => {
  const { status, text } = await start(
    page,
    "fetched",
    { do: [{ say: "hello there" }] },
    { Accept: "text/event-stream", "Idempotency-Key": "k" },
  );
  assert.equal(status, 200);
  assert.deepEqual( // frames without an id are not in the log
    [...text.matchAll(/^id: \d+\nevent: (.+)$/gm)].map(([, type]) => type),
    (await log("fetched")).map(({ type }) => type),
  );
});

test("pages of other origins are shut out", async () => {
  await assert.rejects(start(stranger, "strange", { do: [{ say: "hello" }] }), /Failed to fetch/);
  assert.equal((await fetch(`${base}/api/v1/agent/runs/strange/events`)).status, 404);
  await stranger.evaluate(([base]) => watch(base, "killed"), [base]);
  await stranger.evaluate(() => seen.closed);
  assert.deepEqual(await stranger.evaluate(() => seen.events), []);
  const { frames } = await stranger.evaluate(([base]) => mirror(base, "killed"), [base]);
  assert.deepEqual(frames, []);
});

test("a WebSocket gets the same events", async () => {
  const mirrored = (...args) => page.evaluate((args) => mirror(...args), [base, ...args]);
  const events = await log("killed");
  const whole = await mirrored("killed");
  assert.equal(whole.code, 1000);
  assert.deepEqual(
    whole.frames,
    events.map(({ id, event }) => ({ id, event })),
  );
  assert.deepEqual((await mirrored("killed", "?after_event_id=7")).frames, whole.frames.slice(7));
  for (const protocol of ["agui", "agui.1"]) {
    const bare = await mirrored("killed", "", [protocol]);
    assert.deepEqual([bare.protocol, bare.code], [protocol, 1000]);
    assert.deepEqual(
      bare.frames.map(({ type }) => type),
      events.map(({ type }) => type),
    );
  }
  assert.equal((await start(page, "live", { do: [{ tokens: 100, delayMs: 5 }] })).status, 202);
  assert.deepEqual(
    (await mirrored("live")).frames,
    (await log("live")).map(({ id, event }) => ({ id, event })),
  );
});
