// The console of Baton at BATON_URL while the server is down, refuses requests or loses an answer, and with odd names.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, call, did, ended, leave, logged, looks, quiet, shown, soundInEachLook, start, tab, visit } from "./console-page.mjs";

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

// refuse answers with an error of the server.
const refuse = (status, detail = "It is out of order.") => (route) => route.fulfill({ status, json: { detail, code: "trouble" } });

// forgive removes expected complaints.
const forgive = (page, what) => page.complaints.splice(0, Infinity, ...page.complaints.filter((c) => !what.test(c)));

// soundInEachLookButFor is soundInEachLook without expected complaints.
async function soundInEachLookButFor(page, what, expected) {
  forgive(page, expected);
  await soundInEachLook(page, what);
}

// painted waits until the page has rendered all data.
const painted = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

const lost = /ERR_FAILED|ERR_ABORTED|dynamically imported|Failed to fetch/;

// subscribed returns the threads that a page follows, from its socket's messages.
function subscribed(page) {
  const threads = new Set();
  page.on("websocket", (ws) => {
    threads.clear();
    ws.on("framesent", ({ payload }) => {
      const { op, threadId } = JSON.parse(String(payload));
      if (op === "subscribe") threads.add(threadId);
      if (op === "unsubscribe") threads.delete(threadId);
    });
  });
  return threads;
}

test("an open run is read once, and its stream closes with the page", async () => {
  const run = await did({ do: [{ tokens: 1_200 }, { ask: { message: "look at me" } }], threadId: "looked at" }, "WAITING");
  const next = await did({ do: [{ ask: { message: "and at me" } }], threadId: "looked at next" }, "WAITING");
  const page = await visit(browser, "/runs?q=look+at+me");
  const threads = subscribed(page);
  await page.reload();
  await page.locator(`a[href*="${run.id}"]`).click();
  await page.locator(".run-head [data-whole=true]").waitFor();
  await page.getByRole("heading", { name: "look at me", exact: true }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.getByLabel("Text").fill("and at me");
  await page.locator(`a[href*="${next.id}"]`).click();
  await page.getByRole("heading", { name: "and at me", exact: true }).waitFor();
  while (!threads.has(next.conversationId)) await page.evaluate(() => 0);
  assert.deepEqual([...threads], [next.conversationId], "a run is followed that nobody looks at");
  const asked = page.asked.filter((url) => url.includes(`/agent-runs/${run.id}/events?`));
  assert.deepEqual(asked, [...new Set(asked)], "a log is read twice");
  await quiet(page, "two runs that wait");
  await leave(page);
});

test("an answer that did not arrive can be sent again, with its text kept", async () => {
  const schema = { type: "object", required: ["place"], properties: { place: { type: "string", title: "Place" } } };
  const run = await did({ do: [{ ask: { message: "Where?", schema } }], threadId: "answered twice" }, "WAITING");
  const page = await visit(browser, `/runs/${run.id}`);
  await page.getByLabel("Place").fill("here");
  for (const answer of [(route) => route.abort(), refuse(422, "Not there."), refuse(503, "Not now.")]) {
    await page.route("**/resume*", answer);
    await page.getByRole("button", { name: "Answer", exact: true }).click();
    await page.locator(".waits").getByRole("alert").waitFor();
    assert.equal(await page.getByText("Answered.", { exact: true }).count(), 0);
    assert.equal(await page.getByLabel("Place").inputValue(), "here");
    await page.unroute("**/resume*");
  }
  await soundInEachLookButFor(page, "an answer that was refused", /422|503|ERR_FAILED/);
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await leave(page);
});

test("a part of the console that is needed while the server is down loads when it is back", async () => {
  const page = await visit(browser, "/runs", looks[0], { apart: true }); // its own browser has no cached files
  await page.getByRole("heading", { name: "Runs", exact: true }).waitFor();
  await page.evaluate(() => (window.kept = true));
  await page.route("**/*", (route) => route.abort());
  const failed = page.waitForEvent("requestfailed", (r) => /\/assets\/.*\.js$/.test(r.url()));
  await page.getByRole("link", { name: "Admin" }).click();
  await failed;
  await page.waitForEvent("requestfailed", (r) => new URL(r.url()).pathname === "/");
  await page.unroute("**/*");
  await page.getByRole("heading", { name: "Admin", exact: true }).waitFor();
  assert.ok(await page.evaluate(() => window.kept), "the page was loaded again");
  assert.deepEqual(page.complaints.filter((c) => !lost.test(c)), []);
  await leave(page);
});

test("a part of the console that an update has removed reloads the page", async () => {
  const page = await visit(browser, "/runs", looks[0], { apart: true });
  await page.getByRole("heading", { name: "Runs", exact: true }).waitFor();
  await page.evaluate(() => (window.kept = true));
  await page.route(/\/assets\/admin-.*\.js$/, (route) => route.fulfill({ status: 404 }), { times: 1 });
  await page.route((url) => url.pathname === "/", (route) => route.fulfill({ contentType: "text/html", body: '<script type="module" src="/assets/index-new.js">' }), { times: 1 });
  await page.getByRole("link", { name: "Admin" }).click();
  await page.getByRole("heading", { name: "Admin", exact: true }).waitFor();
  assert.equal(await page.evaluate(() => window.kept), undefined);
  await leave(page);
});

test("addresses support names with any characters", async () => {
  for (const name of ["50% off", "100%25", "a/b?c#d&e=f", "å%zz"]) {
    const page = await visit(browser, `/playground/${encodeURIComponent(name)}?agent=echo`);
    await page.getByRole("textbox", { name: "Message" }).fill(`hello ${name}`);
    await page.keyboard.press("Enter");
    await page.locator(".message[data-role=assistant]", { hasText: `hello ${name}` }).waitFor();
    const { messages } = await call("GET", `/api/v1/threads/${encodeURIComponent(name)}/messages`);
    assert.equal(messages.length, 2);
    const { runId } = await start({ agent: "echo", content: `ran ${name}`, runId: `run ${name}` });
    await ended(runId);
    await page.goto(new URL(`/runs/${encodeURIComponent(runId)}`, page.url()).href);
    await tab(page, "Messages");
    await page.waitForURL("**?tab=messages");
    await page.reload();
    await page.locator(".message[data-role=assistant]", { hasText: `ran ${name}` }).waitFor();
    await quiet(page, name);
    await leave(page);
  }
});

test("a page that fails shows an error, and the others work", async () => {
  const page = await visit(browser, "/");
  await page.getByRole("heading", { name: "Overview", exact: true }).waitFor();
  await page.route(/\/agent-runs\?.*limit=50/, (route) => route.fulfill({ json: { items: [{ id: "x", conversationId: "x" }], nextCursor: null, total: 1 } }));
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  await page.getByText("This page has failed").waitFor();
  await soundInEachLookButFor(page, "a page that has failed", /undefined|React|error/i);
  await page.getByRole("link", { name: "Threads", exact: true }).click();
  await page.getByRole("heading", { name: "Threads", exact: true }).waitFor();
  await leave(page);
});

test("a log with an unreadable page is complete after a retry", async () => {
  const run = await did({ do: [{ tokens: 1_200 }, { ask: { message: "go on?" } }, { tokens: 20 }, { say: "the end" }], threadId: "in parts" }, "WAITING");
  const page = await visit(browser, "/runs");
  await page.route(/\/events\?.*after_event_id=/, refuse(500));
  await page.goto(new URL(`/runs/${run.id}?tab=events`, page.url()).href);
  const alert = page.getByRole("alert").filter({ hasText: "out of order" });
  await alert.waitFor();
  await page.getByRole("button", { name: "Allow", exact: true }).click();
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await page.unroute(/\/events\?.*after_event_id=/);
  await alert.getByRole("button", { name: "Try again", exact: true }).click();
  await page.locator(".run-head [data-whole=true]").waitFor();
  await alert.waitFor({ state: "detached" });
  const log = await logged(await ended(run.id));
  await page.getByText(`${log.length.toLocaleString("en")} events`).waitFor();
  assert.deepEqual(await shown(page), log.map((l) => l.event_id));
  await leave(page);
});

test("a dialog shows its failure and keeps its text", async () => {
  const run = await did({ agent: "echo", content: "said in a dialog", threadId: "dialogs" });
  const page = await visit(browser, `/runs/${run.id}`);
  const dialog = page.getByRole("dialog");
  const says = async (button, what) => {
    await dialog.getByRole("button", { name: button, exact: true }).click();
    await dialog.getByRole("alert").filter({ hasText: "out of order" }).waitFor();
    await soundInEachLookButFor(page, what, /500/);
  };
  await page.route("**/messages?*", refuse(500));
  await page.getByRole("button", { name: "Say more", exact: true }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("more");
  await says("Send", "a message that was refused");
  assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(), "more");
  await page.keyboard.press("Escape");
  await page.route("**/rerun*", refuse(500));
  await page.getByRole("button", { name: "Run again", exact: true }).click();
  await says("Run", "a run that was refused");
  await page.keyboard.press("Escape");
  await page.goto(new URL(`/threads/${run.conversationId}`, page.url()).href);
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await page.getByLabel("New title").fill("another");
  await page.route("**/threads/*", (route) => (route.request().method() === "PATCH" ? refuse(500)(route) : route.continue()));
  await says("Rename", "a name that was refused");
  await leave(page);
});

test("a request that is repeated after a lost answer takes effect once", async () => {
  const page = await visit(browser, "/playground/lost?agent=echo");
  let times = 0;
  await page.route("**/api/v1/agent/runs", async (route) => {
    if (times++ > 0) return route.continue();
    await route.fetch(); // the request arrives, its answer does not
    await route.abort();
  });
  const field = page.getByRole("textbox", { name: "Message" });
  await field.fill("say it once");
  await page.keyboard.press("Enter");
  await page.getByText("The server cannot be reached.", { exact: true }).waitFor();
  assert.equal(await field.inputValue(), "say it once");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".message[data-role=assistant]", { hasText: "say it once" }).waitFor();
  await page.waitForFunction(() => document.querySelector("#say").value === "");
  const runs = async () => (await call("GET", "/api/projects/default/agent-runs?threadId=lost")).items.length;
  assert.equal(await runs(), 1);
  await field.fill("say it once"); // the same text as a new message
  await page.keyboard.press("Enter");
  await page.locator(".message[data-role=assistant]").nth(1).waitFor();
  assert.equal(await runs(), 2);
  assert.deepEqual(page.complaints.filter((c) => !lost.test(c)), []);
  await leave(page);
});

test("a new thread is not affected by others, and appears when it is started elsewhere", async () => {
  const page = await visit(browser, "/playground/not-yet?agent=echo");
  const told = [];
  page.on("websocket", (ws) => ws.on("framereceived", ({ payload }) => told.push(JSON.parse(String(payload)).op)));
  await page.reload();
  await page.getByRole("heading", { name: "Talk to echo", exact: true }).waitFor();
  while (!told.includes("error")) await page.evaluate(() => 0);
  await page.waitForLoadState("networkidle"); // the page is complete
  await painted(page);
  await page.evaluate(() => {
    window.moves = [];
    const what = (m) => `${m.target.className}: ${[...m.addedNodes].map((n) => `+${n.textContent}`)} ${[...m.removedNodes].map((n) => `-${n.textContent}`)}`;
    new MutationObserver((list) => window.moves.push(...list.map(what))).observe(document.querySelector(".talk"), { childList: true, subtree: true });
  });
  for (let n = 0; n < 3; n++) {
    const before = told.filter((op) => op === "error").length;
    await did({ agent: "echo", content: `elsewhere ${n}` });
    while (told.filter((op) => op === "error").length === before) await page.evaluate(() => 0); // the page has retried
  }
  await painted(page);
  assert.deepEqual(await page.evaluate(() => window.moves), [], "the page has flickered");
  await did({ agent: "echo", content: "begun elsewhere", threadId: "not-yet" });
  await page.locator(".message[data-role=assistant]", { hasText: "begun elsewhere" }).waitFor();
  await leave(page);
});

test("a file can be opened as long as its message is shown", async () => {
  const form = new FormData();
  form.append("file", new File(["remember"], "note.txt", { type: "text/plain" }));
  const stored = await (await fetch(`${process.env.BATON_URL}/api/v1/agent/attachments`, { method: "POST", body: form })).json();
  const run = await did({ agent: "echo", threadId: "old files", messages: [{ role: "user", content: "a file", metadata: { attachments: [stored] } }] });
  const page = await visit(browser, "/runs", looks[0], { apart: true });
  await page.clock.install();
  await page.goto(new URL("/playground/old%20files", page.url()).href);
  const asked = () => page.asked.filter((url) => url.includes("signed-url")).length;
  await page.getByRole("link", { name: /note\.txt/ }).waitFor();
  const before = asked();
  await page.clock.runFor(11 * 60_000);
  while (asked() === before) await page.evaluate(() => 0);
  for (const path of [`/runs/${run.id}?tab=messages`, `/runs/${run.id}?tab=input`, `/threads/${run.conversationId}`]) {
    await page.goto(new URL(path, page.url()).href);
    const link = page.getByRole("link", { name: /note\.txt/ });
    await link.waitFor();
    assert.equal(await (await fetch(await link.getAttribute("href"))).text(), "remember");
  }
  await quiet(page, "files of a message");
  await leave(page);
});

test("a bulk action reports failed runs and keeps them selected", async () => {
  const runs = await Promise.all([1, 2, 3].map((n) => start({ do: [{ ask: { message: `stays ${n}` } }], threadId: `stays${n}` })));
  await Promise.all(runs.map(({ runId }) => ended(runId, "WAITING")));
  const over = await did({ agent: "echo", content: "stays 4" });
  const page = await visit(browser, "/runs?q=stays");
  await page.locator(".runs li").nth(3).waitFor();
  await page.route(`**/${runs[1].runId}/cancel*`, refuse(500, "It does not stop."));
  let go;
  const held = new Promise((done) => (go = done));
  await page.route(`**/${runs[0].runId}/cancel*`, (route) => held.then(() => route.continue()));
  await page.getByLabel("Select all loaded runs").check();
  await page.getByText("4 selected").waitFor();
  await page.getByRole("button", { name: "Cancel 3", exact: true }).click();
  await page.getByRole("button", { name: "Cancel them", exact: true }).click();
  await page.getByText(/^\d of 3 …$/).waitFor();
  go();
  await page.getByText("1 of 3 runs not cancelled: It does not stop.").waitFor();
  await page.getByText("1 selected").waitFor();
  await page.unrouteAll();
  await page.getByRole("button", { name: "Cancel 1", exact: true }).click();
  await page.getByRole("button", { name: "Cancel them", exact: true }).click();
  await page.getByText("1 run cancelled.").waitFor();
  await ended(runs[1].runId, "CANCELLED");
  assert.equal((await ended(over.id)).status, "COMPLETED");
  await leave(page);
});

test("counts of a busy project are shown as lower bounds", async () => {
  const instance = (n, serving) => ({ id: `i${n}`, version: "1", address: `host-${n}`, startedAt: new Date().toISOString(), heartbeatAt: new Date().toISOString(), serving, ended: serving ? null : "stopped" });
  const page = await visit(browser, "/admin");
  await page.route("**/stats?*", async (route) => {
    const response = await route.fetch();
    const stats = await response.json();
    const instances = [...Array.from({ length: 8 }, (_, n) => instance(n, false)), instance(8, true)];
    await route.fulfill({ response, json: { ...stats, now: { ...stats.now, queued: 10_000, running: 9_999 }, instances } });
  });
  await page.goto(new URL("/", page.url()).href);
  const now = page.getByRole("list", { name: "Now" });
  await now.getByText("10,000+").waitFor();
  await now.getByText("9,999", { exact: true }).waitFor();
  const instances = page.locator(".panel", { has: page.getByRole("heading", { name: "Instances", exact: true }) });
  await instances.getByText("and 3 more").waitFor();
  assert.match(await instances.locator("li").first().textContent(), /serving.*host-8/);
  await soundInEachLook(page, "the overview of a busy project");
  await leave(page);
});
