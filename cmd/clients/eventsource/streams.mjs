// Libraries that read event streams with fetch, from Baton at BATON_URL, which CRASH_URL kills and restarts.
import { test } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { fetchEventSource } from "@microsoft/fetch-event-source";
import { createParser } from "eventsource-parser";
import { EventSourceParserStream } from "eventsource-parser/stream";
import { until } from "../until.mjs";

const { BATON_URL: base, CRASH_URL } = process.env;
globalThis.window = globalThis; // fetch-event-source needs a window
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };

// Each follows a stream to its end and calls see for every event. Where a library does not resume by itself, the code follows its
// documentation.
const comingBack = (read) => async (url, see) => {
  for (let last, again = false; ; again = true) {
    if (again) await new Promise((wake) => setTimeout(wake, 50));
    try {
      const response = await fetch(url, { headers: last ? { "Last-Event-ID": last } : {} });
      if (response.status === 204) return;
      assert.equal(response.status, 200);
      await read(response.body, (event) => ((last = event.id ?? last), see(event)));
      return;
    } catch (error) {
      if (error.name !== "TypeError") throw error; // the error of fetch when a connection is cut
    }
  }
};

const readers = {
  "fetch-event-source": (url, see) => fetchEventSource(url, { onmessage: see }),
  "fetch-event-source with handlers": async (url, see) => {
    const called = { open: 0, close: 0, error: 0 };
    await fetchEventSource(url, {
      openWhenHidden: true,
      onopen: async (response) => (called.open++, assert.match(response.headers.get("content-type"), /^text\/event-stream/)),
      onmessage: see,
      onclose: () => called.close++,
      onerror: () => (called.error++, 50),
    });
    assert.equal(called.close, 1);
    assert.ok(called.error > 0 && called.open > 1, "it was told of the cut");
  },
  "eventsource-parser": comingBack(async (body, see) => {
    const parser = createParser({ onEvent: see });
    const text = new TextDecoder();
    for await (const chunk of body) parser.feed(text.decode(chunk, { stream: true }));
  }),
  "eventsource-parser with handlers": comingBack(async (body, see) => {
    const comments = [];
    const fail = (error) => assert.fail(String(error));
    const parser = createParser({ onEvent: see, onError: fail, onRetry: (ms) => assert.ok(ms > 0), onComment: (text) => comments.push(text) });
    const text = new TextDecoder();
    for await (const chunk of body) parser.feed(text.decode(chunk, { stream: true }));
    assert.ok(comments.length > 0, "it was told of pings");
  }),
  "eventsource-parser's stream": comingBack(async (body, see) => {
    for await (const event of body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())) see(event);
  }),
};

test("across a crash each reads every event once, and to the end", async () => {
  const threadId = randomUUID();
  const ops = [{ say: "before" }, { tokens: 300, delayMs: 5 }, { tool: "sleep", args: { ms: 3000 } }, { say: "after" }]; // the crash is before its end on a slow machine, too
  const started = await fetch(base + "/api/v1/agent/runs", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ agent: "scripted", threadId, content: JSON.stringify({ do: ops }) }),
  });
  assert.equal(started.status, 202);
  const seen = new Map();
  const reading = Object.entries(readers).map(([name, read]) => {
    const events = [];
    seen.set(name, events);
    return read(`${base}/api/v1/agent/runs/${threadId}/events`, ({ id, event, data }) => {
      const { type } = JSON.parse(data);
      assert.equal(event, type);
      events.push({ id: Number(id), type });
    });
  });
  await until("reading", () => [...seen.values()].every((events) => events.length > 20));
  assert.equal((await fetch(CRASH_URL, { method: "POST" })).status, 200);
  await Promise.all(reading);
  for (const [name, events] of seen) {
    assert.deepEqual(
      events.map(({ id }) => id),
      events.map((_, i) => i + 1),
      name,
    );
    assert.equal(events.at(-1).type, "RUN_FINISHED", name);
  }
});
