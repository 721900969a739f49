// Libraries that read server-sent events from BATON_URL while the server is killed and restarted.
import { test } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { fetchEventSource } from "@microsoft/fetch-event-source";
import { EventSource } from "eventsource";
import { createParser } from "eventsource-parser";
import { until } from "../until.mjs";

const base = process.env.BATON_URL;
globalThis.window = globalThis; // fetch-event-source needs a window
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };

// The contents of a run before, between and after pings.
const script = [{ tokens: 100, delayMs: 5 }, { tool: "sleep", args: { ms: 500 } }, { say: "after" }];

const start = async () => {
  const threadId = randomUUID();
  const body = JSON.stringify({ agent: "scripted", threadId, content: JSON.stringify({ do: script }) });
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${base}/api/v1/agent/runs`, { method: "POST", headers, body });
  assert.equal(response.status, 202);
  return `${base}/api/v1/agent/runs/${threadId}/events`;
};

// Seen is the events that a reader got: each must be valid, unique and in order.
class Seen {
  events = [];
  opened = 0;
  take(id, data) {
    this.events.push(JSON.parse(data));
    assert.equal(Number(id), this.events.length);
  }
}

const readers = {
  "fetch-event-source": (url, seen) =>
    fetchEventSource(url, {
      onopen: async ({ status }) => void (assert.equal(status, 200), seen.opened++),
      onmessage: ({ id, data }) => seen.take(id, data),
      onerror: () => {},
    }),
  "fetch-event-source without handlers": (url, seen) =>
    fetchEventSource(url, { openWhenHidden: true, onmessage: ({ id, data }) => seen.take(id, data), fetch: counting(seen) }),
  eventsource: (url, seen) =>
    new Promise((end) => {
      const source = new EventSource(url, { fetch: counting(seen) });
      const types = "RUN_STARTED RUN_FINISHED RUN_ERROR STEP_STARTED STEP_FINISHED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT " +
        "TEXT_MESSAGE_END TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT message";
      for (const type of types.split(" ")) source.addEventListener(type, ({ lastEventId, data }) => seen.take(lastEventId, data));
      const awake = setInterval(() => {}, 1000); // keeps the process alive while the reader reconnects
      source.onerror = () => source.readyState === source.CLOSED && end(clearInterval(awake)); // 204
    }),
  "eventsource-parser": async (url, seen) => {
    for (let last; ; ) {
      try {
        const response = await counting(seen)(url, { headers: last ? { "Last-Event-ID": last } : {} });
        if (response.status === 204) return;
        const parser = createParser({
          onEvent: ({ id, data }) => seen.take((last = id), data),
          onError: (error) => assert.fail(error),
        });
        for await (const text of response.body.pipeThrough(new TextDecoderStream())) parser.feed(text);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        await new Promise((wake) => setTimeout(wake, 50)); // the server is down
      }
    }
  },
};

const counting = (seen) => async (...request) => {
  const response = await fetch(...request);
  seen.opened++;
  return response;
};

test("each event once, across a crash", async () => {
  const all = await Promise.all(
    Object.entries(readers).map(async ([name, read]) => {
      const seen = new Seen();
      return { name, seen, done: read(await start(), seen) };
    }),
  );
  await until("at work", () => all.every(({ seen }) => seen.events.length > 20));
  assert.equal((await fetch(process.env.CRASH_URL, { method: "POST" })).status, 200);
  for (const { name, seen, done } of all) {
    await done;
    assert.equal(seen.events.at(-1).type, "RUN_FINISHED", name);
    assert.ok(seen.events.some(({ delta }) => delta === "after"), name);
    assert.ok(seen.opened <= 3, `${name} connected ${seen.opened} times`);
  }
});

// A broken stream must not look complete.
test("fetch sees that a stream was cut", async () => {
  const body = JSON.stringify({ agent: "scripted", content: JSON.stringify({ do: [{ tool: "sleep", args: { ms: 60000 } }] }) });
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream" };
  const response = await fetch(`${base}/api/v1/agent/runs`, { method: "POST", headers, body });
  assert.equal(response.headers.get("Connection"), null);
  const reader = response.body.getReader();
  await reader.read();
  const cut = assert.rejects(async () => {
    while (!(await reader.read()).done);
  });
  assert.equal((await fetch(process.env.CRASH_URL, { method: "POST" })).status, 200);
  await cut;
});
