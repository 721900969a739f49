// Measures the console in Chromium with the real program: node bench.mjs <baton> [events] [tabs] [live runs]. The cost of a page is given
// twice: by the clock, and in CPU time of the page's thread, which does not depend on the machine's load.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { launch } from "./launch.mjs";
import { serve } from "./program.mjs";

const [baton, size = "100000", many = "50", running = "30"] = process.argv.slice(2);
const [events, tabs, live] = [size, many, running].map(Number);

const program = await serve(resolve(baton), { log: { level: "error" } });
const base = program.url;
const browser = await launch();
try {
  const long = await did(script(events));
  await pages(long);
  await list(live);
  await thread(await did(Array.from({ length: 5_000 }, (_, n) => ({ say: `message ${n}` })), "long"), 5_000);
  await crowd("on one run", () => waiting("one", 1));
  await crowd(`on ${tabs} runs`, () => waiting("each", tabs));
} finally {
  await browser.close();
  await program.stop();
}

// script returns a script with about the given number of events of all kinds.
function script(events) {
  const round = [{ reason: "I have to think about it" }, { tokens: 1_950 }, { tool: "clock" }, { state: { step: 1 } }, { progress: 0.5, message: "on the way" }];
  return Array.from({ length: Math.ceil(events / 2_000) }, () => round).flat();
}

async function call(method, path, body) {
  const response = await fetch(base + path, { method, headers: { "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

async function did(list, threadId, status = "COMPLETED") {
  const { runId } = await call("POST", "/api/v1/agent/runs", { agent: "scripted", content: JSON.stringify({ do: list }), threadId });
  for (;;) {
    const run = await call("GET", `/api/projects/default/agent-runs/${runId}`);
    if (run.status === status) return run;
    if (run.error) throw new Error(JSON.stringify(run.error));
    await pause(100);
  }
}

// waiting starts open runs that do nothing, one after another, because this script's own connections would count.
async function waiting(name, count) {
  const runs = [];
  for (let i = 0; i < count; i++) runs.push(await did([{ say: "before" }, { ask: { message: "Go on?" } }], `${name}-${i}`, "WAITING"));
  return runs;
}

async function pages(run) {
  console.log(`a run of ${run.lastEvent.id} events`);
  for (const [tab, row, frame] of [
    ["timeline", ".line", ".lines"],
    ["events", ".event", ".rows"],
    ["messages", ".message-row", ".messages"],
    ["state", ".state-tree", ".main"],
  ]) {
    const seen = [];
    for (let i = 0; i < 3; i++) seen.push(await open(`${base}/runs/${run.id}?tab=${tab}`, row, frame, ".run-head [data-whole=true]"));
    print(tab, seen);
  }
}

// list measures the list of runs while some of them stream a token each 20 ms.
async function list(count) {
  const body = { agent: "scripted", content: JSON.stringify({ do: [{ tokens: 100_000, delayMs: 20 }] }) };
  for (let i = 0; i < count; i++) await call("POST", "/api/v1/agent/runs", { ...body, threadId: `live-${i}` });
  const context = await browser.newContext({ viewport: { width: 1440, height: 2_000 } });
  const page = await context.newPage();
  let requests = 0;
  page.on("request", () => requests++);
  await page.goto(`${base}/runs`);
  await page.waitForFunction((n) => [...document.querySelectorAll(".activity .words")].filter((w) => w.textContent).length === n, count);
  const opened = requests;
  await pause(5_000);
  const [before, asked] = [await server(), requests];
  const words = () => page.locator(".activity .words").allTextContents();
  const old = await words();
  const { longest, cpu, busy } = await traced(page, () => pause(10_000));
  const now = await words();
  const spent = (await server()).cpu - before.cpu;
  await context.close();
  console.log(`a list with ${count} live runs: opened with ${opened} requests, ${now.filter((w, i) => w !== old[i]).length} show other words after 10 s, longest task ${longest} ms (CPU ${cpu}), ${(busy / 10).toFixed()} ms CPU/s of its thread, ${(spent * 100).toFixed()} ms CPU/s of the server, ${((requests - asked) / 10).toFixed(1)} requests/s`);
  const { items } = await call("GET", "/api/projects/default/agent-runs?status=RUNNING&limit=500");
  for (const { id } of items) await call("POST", `/api/projects/default/agent-runs/${id}/cancel`);
}

// thread measures the history of a thread.
async function thread(run, messages) {
  console.log(`a thread of ${messages} messages`);
  print("history", [await open(`${base}/threads/${run.conversationId}`, ".message-row .message", ".messages", ".messages")]);
}

// print prints the medians of what open has measured.
function print(name, seen) {
  const middle = (what) => seen.map((s) => s[what]).sort((a, b) => a - b)[seen.length >> 1];
  const figures = [
    `shown after ${middle("shown")} ms`, `whole after ${middle("whole")} ms with ${middle("requests")} requests`,
    `longest task while it opens ${middle("opening")} ms (CPU ${middle("openingCPU")})`,
    `while it scrolls ${middle("scrolling")} ms (CPU ${middle("scrollingCPU")})`, `${middle("rows")} rows at most in the page`,
  ];
  console.log(`  ${name.padEnd(9)} ${figures.join(", ")}`);
}

// open opens a page, whose first row and last part have the given selectors, and scrolls its frame, with the texts of events unfolded.
async function open(url, row, frame, whole) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(`${base}/agents`); // loads the files that all pages share
  await page.locator(".panel").first().waitFor();
  let requests = 0;
  page.on("request", (r) => (requests += r.url().includes("/events?") ? 1 : 0));
  const opening = await traced(page, async () => {
    await page.goto(url, { waitUntil: "commit" });
    const at = (part) => page.waitForFunction((part) => document.querySelector(part), part, { polling: "raf" }).then(() => page.evaluate(() => Math.round(performance.now())));
    return { shown: await at(row), whole: await at(whole) };
  });
  if (row === ".event") await page.getByLabel("Fold texts").uncheck();
  const scrolling = await traced(page, () =>
    page.evaluate(
      async ([frame, row]) => {
        const f = document.querySelector(frame);
        let rows = 0;
        for (let i = 1; i <= 240; i++) {
          if (i % 24 === 0) f.scrollTo(0, (f.scrollHeight * i) / 240);
          else f.scrollBy(0, 600);
          await new Promise((done) => requestAnimationFrame(done));
          rows = Math.max(rows, document.querySelectorAll(row).length);
        }
        return { rows };
      },
      [frame, row],
    ),
  );
  await context.close();
  const [o, s] = [opening.result, scrolling.result];
  return { ...o, ...s, requests, opening: opening.longest, openingCPU: opening.cpu, scrolling: scrolling.longest, scrollingCPU: scrolling.cpu };
}

// traced does something with a page, and returns the longest task of its main thread, and the CPU time of all, in ms.
async function traced(page, what) {
  await browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"] });
  const result = await what();
  const { traceEvents } = JSON.parse(String(await browser.stopTracing()));
  const main = new Set(traceEvents.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid}/${e.tid}`));
  const tasks = traceEvents.filter((e) => /RunTask$/.test(e.name) && main.has(`${e.pid}/${e.tid}`));
  const most = (member) => Math.round(Math.max(0, ...tasks.map((t) => t[member] ?? 0)) / 1_000);
  return { result, longest: most("dur"), cpu: most("tdur"), busy: tasks.reduce((n, t) => n + (t.tdur ?? 0), 0) / 1_000 };
}

// crowd measures the server's cost of many tabs, and of as many plain streams of the same runs.
async function crowd(where, prepare) {
  const runs = await prepare();
  const run = (i) => runs[i % runs.length];
  await pause(3_000);
  const empty = await server();
  const stop = new AbortController();
  await Promise.all(Array.from({ length: tabs }, (_, i) => follow(run(i), stop.signal)));
  const streams = await cost(empty);
  stop.abort();
  await settled(empty);

  const before = await server();
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  for (let i = 0; i < tabs; i++) {
    const page = await context.newPage();
    await page.goto(`${base}/runs/${encodeURIComponent(run(i).id)}`);
    await page.getByRole("heading", { name: "Go on?", exact: true }).waitFor({ timeout: 120_000 });
  }
  await pause(25_000); // until hidden tabs have closed their connections
  const pages = await cost(before);
  await context.close();
  await settled(before);
  for (const [name, c] of [["streams", streams], ["tabs", pages]]) {
    console.log(`${tabs} ${name} ${where}: ${c.goroutines} goroutines, ${c.sockets} sockets, ${c.memory} MiB more; ${c.requests} requests/s, ${c.cpu} ms CPU/s while nothing happens`);
  }
}

async function follow(run, signal) {
  const url = `${base}/api/v1/agent/runs/${encodeURIComponent(run.conversationId)}/events?follow=true`;
  const { body } = await fetch(url, { headers: { Accept: "text/event-stream" }, signal });
  const reader = body.getReader();
  const on = () => reader.read().then(({ done }) => !done && on(), () => {});
  await reader.read();
  void on();
}

async function cost(before) {
  const from = await server();
  await pause(10_000);
  const to = await server();
  return {
    goroutines: to.goroutines - before.goroutines,
    sockets: to.sockets - before.sockets,
    memory: ((to.memory - before.memory) / 1_048_576).toFixed(1),
    requests: ((to.requests - from.requests - 1) / 10).toFixed(1), // without this script's own request
    cpu: ((to.cpu - from.cpu) * 100).toFixed(1),
  };
}

// server returns the server's resource usage.
async function server() {
  const text = await (await fetch(`${base}/metrics`)).text();
  const sum = (name) => [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (.+)$`, "gm"))].reduce((n, [, v]) => n + Number(v), 0);
  const status = await readFile(`/proc/${program.pid}/status`, "utf8");
  return {
    goroutines: sum("go_goroutines"), sockets: sum("process_open_fds"), cpu: sum("process_cpu_seconds_total"),
    memory: Number(/^VmRSS:\s+(\d+)/m.exec(status)[1]) * 1_024, requests: sum("baton_http_requests_total"),
  };
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

// settled waits until the server has released everything.
async function settled(empty) {
  for (let tries = 0; tries < 60 && (await server()).sockets > empty.sockets + 2; tries++) await pause(1_000);
}
