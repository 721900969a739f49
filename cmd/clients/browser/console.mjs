// The overview, the list of runs and the page of a run in the console of Baton at BATON_URL. POST CONTROL/crash kills and restarts the server.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { browse, call, did, ended, leave, logged, quiet, shown, sound, soundInEachLook, start, tab, untilShown, visit } from "./console-page.mjs";

const { CONTROL } = process.env;
const execute = promisify(execFile);

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> [a](javascript:window.hacked=1) ![p](javascript:1) **bold**`;

test("the overview shows the state of the project", async () => {
  await did({ agent: "echo", content: "fine" });
  await did({ do: [{ fail: "it is broken", code: "broken" }] }, "FAILED");
  const asks = await did({ do: [{ ask: { message: "Shall we?" } }], threadId: "asks" }, "WAITING");
  const page = await visit(browser, "/");
  await page.getByRole("heading", { name: "Overview", exact: true }).waitFor();
  const failed = page.locator(".panel", { hasText: "Latest failures" });
  await failed.getByText("it is broken").first().waitFor();
  await page.locator(".panel", { hasText: "Waiting for an answer" }).getByRole("link", { name: "Shall we?" }).waitFor();
  await soundInEachLook(page, "the overview");
  await page.getByRole("link", { name: "Shall we?" }).first().click();
  await page.waitForURL(`**/runs/${asks.id}**`);
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.locator(".run-head [data-status=CANCELLED]").waitFor();
  await quiet(page, "the way from the overview");
  await leave(page);
});

test("the list of runs is live, filtered by its address, and has keyboard navigation", async () => {
  await did({ agent: "echo", content: "needle in a haystack" });
  await did({ do: [{ fail: "no", code: "nope" }] }, "FAILED");
  const page = await visit(browser, "/runs");
  await page.getByRole("link", { name: "needle in a haystack" }).waitFor();
  await soundInEachLook(page, "the runs");
  await page.setViewportSize({ width: 3840, height: 2160 }); // with larger letters and columns
  const [badge, link] = await Promise.all([".badge", "a"].map((part) => page.locator(`.runs li ${part}`).first().boundingBox()));
  assert.ok(badge.x + badge.width <= link.x, "a run's status stands on what it was asked");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole("group", { name: "Status" }).getByRole("button", { name: "Failed", exact: true }).click();
  await page.waitForURL("**/runs?status=failed");
  await page.getByRole("link", { name: "needle in a haystack" }).waitFor({ state: "detached" });
  await page.reload();
  await page.locator(".runs li").first().waitFor();
  const statuses = await page.locator(".runs li .badge").evaluateAll((list) => list.map((b) => b.dataset.status));
  assert.ok(statuses.length > 0 && statuses.every((s) => s === "FAILED"), String(statuses));
  await page.getByRole("button", { name: "Clear", exact: true }).click();
  await page.waitForURL("**/runs");

  await did({ agent: "echo", content: "it came later" });
  await page.getByRole("link", { name: "it came later" }).waitFor();
  await page.getByLabel("Text").fill("needle");
  await page.waitForURL("**/runs?q=needle");
  await page.getByRole("link", { name: "it came later" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "needle in a haystack" }).waitFor();
  await page.keyboard.press("Tab");
  await page.locator("h1").click();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/runs\/[^?]/);
  await page.getByRole("heading", { name: "needle in a haystack", exact: true }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.waitForURL(/\/runs$/);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys", exact: true }).getByText("next run").waitFor();
  await soundInEachLook(page, "the list of keys");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await leave(page);
});

test("running runs show their step and their last words in the list, over one connection", async () => {
  const words = Array.from({ length: 3_000 }, (_, i) => `word${i}`).join(" ");
  const scripts = [...Array(7).fill([{ say: "looking" }, { tool: "sleep", args: { ms: 3_600_000 } }]), [{ say: words, delayMs: 100 }]];
  const runs = await Promise.all(scripts.map((list, n) => start({ workflowId: "listening", content: JSON.stringify({ do: list }), threadId: `live ${n}` })));
  const page = await visit(browser, "/admin");
  const sockets = [];
  page.on("websocket", (socket) => sockets.push(socket));
  await page.goto(new URL("/runs?status=running", page.url()).href);
  const now = page.locator(".runs .activity");
  await now.filter({ hasText: "listencalls sleep" }).nth(6).waitFor();
  const counting = now.filter({ hasText: /^listen.*word\d+\s*$/ });
  await counting.waitFor();
  const before = await counting.textContent();
  await page.waitForFunction((before) => [...document.querySelectorAll(".activity")].every((a) => a.textContent !== before), before);
  const open = sockets.filter((socket) => !socket.isClosed()); // that of the page before may have been announced late
  assert.equal(open.length, 1, open.map((socket) => socket.url()).join());
  assert.equal(page.asked.filter((url) => url.includes("/events?")).length, runs.length); // one page of each
  await soundInEachLook(page, "running runs");
  const high = await page.locator(".runs li").first().boundingBox();
  await page.getByRole("button", { name: "Compact rows", exact: true }).click();
  await page.reload(); // it is kept
  await now.nth(7).waitFor();
  const low = await page.locator(".runs li").first().boundingBox();
  assert.ok(low.height < high.height, `${low.height} < ${high.height}`);
  await soundInEachLook(page, "compact rows");
  await page.getByRole("button", { name: "Compact rows", exact: true }).click();
  await Promise.all(runs.map(({ runId }) => call("POST", `/api/projects/default/agent-runs/${runId}/cancel`)));
  await now.first().waitFor({ state: "detached" });
  await leave(page);
});

test("the graph of fifty nodes is readable, and its nodes show their input and output", async () => {
  const run = await did({ workflowId: "fifty", content: "שלום" });
  const page = await visit(browser, `/runs/${run.id}`);
  const folded = page.locator(".node", { hasText: "24 × echo" });
  await folded.getByText("24 completed").waitFor();
  assert.equal(await page.locator(".node").count(), 27);
  await page.getByRole("img", { name: "Map of the workflow" }).waitFor();
  const columns = new Set(await page.locator(".react-flow__node[data-id^=source]").evaluateAll((list) => list.map((n) => new DOMMatrix(getComputedStyle(n).transform).e)));
  assert.ok(columns.size > 1, "a wide rank is one column");
  assert.deepEqual(await behind(page), [], "edges behind nodes");
  assert.equal(await page.locator("h1").evaluate((e) => getComputedStyle(e).direction), "rtl");
  await soundInEachLook(page, "a graph of fifty nodes");
  await page.locator(".node", { hasText: "check03" }).focus();
  await page.keyboard.press("Enter");
  for (const name of ["Input", "Output"]) await page.getByRole("group", { name, exact: true }).getByText("שלום").first().waitFor();
  await soundInEachLook(page, "the input and output of a node");
  await page.getByRole("button", { name: "Close the node", exact: true }).click();
  await folded.click();
  await page.locator(".node", { hasText: "part23" }).waitFor();
  assert.equal(await page.locator(".node").count(), 50);
  assert.deepEqual(await behind(page), [], "edges behind nodes");
  await page.getByRole("button", { name: "Fold alike nodes", exact: true }).click();
  await folded.waitFor();
  await page.goto(new URL("/agents?tab=agents", page.url()).href);
  assert.match(await page.locator(".offers .panel").first().textContent(), /thinker/); // own agents are before the built-in ones
  await quiet(page, "a large graph");
  await leave(page);
});

// behind returns the edges of a graph that pass behind a node.
const behind = (page) =>
  page.evaluate(() => {
    const nodes = [...document.querySelectorAll(".react-flow__node")].map((n) => ({ id: n.dataset.id, box: n.getBoundingClientRect() }));
    const inside = ({ x, y }, { left, right, top, bottom }) => x > left + 1 && x < right - 1 && y > top + 1 && y < bottom - 1;
    return [...document.querySelectorAll(".react-flow__edge")].flatMap((edge) => {
      const path = edge.querySelector("path");
      const points = Array.from({ length: 101 }, (_, i) => path.getPointAtLength((path.getTotalLength() * i) / 100).matrixTransform(path.getScreenCTM()));
      const others = nodes.filter(({ id }) => !edge.dataset.id.split("→").includes(id));
      return others.filter(({ box }) => points.some((p) => inside(p, box))).map(({ id }) => `${edge.dataset.id} behind ${id}`);
    });
  });

test("a thread of many messages opens at the newest, with few of them in the page", async () => {
  const run = await did({ do: Array.from({ length: 1_200 }, (_, n) => ({ say: `message ${n}` })), threadId: "many messages" });
  const page = await visit(browser, `/threads/${run.conversationId}`);
  await page.getByText("message 1199", { exact: true }).waitFor();
  assert.ok((await page.locator(".message").count()) < 60);
  const list = page.getByRole("region", { name: "Messages" });
  for (let tries = 0; tries < 50 && (await page.locator(".day").count()) === 0; tries++) await list.evaluate((e) => e.scrollTo(0, 0));
  await page.getByText("message 0", { exact: true }).waitFor();
  await soundInEachLook(page, "a long thread");
  await leave(page);
});

test("runs are cancelled and deleted in bulk", async () => {
  const open = await Promise.all([1, 2, 3].map((n) => start({ do: [{ say: `wait ${n}` }, { ask: { message: "go on?" } }], threadId: `bulk${n}` })));
  await Promise.all(open.map((r) => ended(r.runId, "WAITING")));
  const page = await visit(browser, "/runs?status=waiting&q=wait");
  await page.locator(".runs li").nth(2).waitFor();
  await page.locator("h1").click();
  for (const key of ["j", "x", "j", "x"]) await page.keyboard.press(key);
  await page.getByText("2 selected").waitFor();
  await page.keyboard.press("c");
  const asks = page.getByRole("dialog", { name: "Cancel 2 runs?", exact: true });
  await asks.getByText("Their messages stay.").waitFor();
  await soundInEachLook(page, "what is asked before runs are cancelled");
  await asks.getByRole("button", { name: "Keep", exact: true }).click();
  await page.getByText("2 selected").waitFor();
  await page.keyboard.press("a");
  await page.getByRole("button", { name: "Cancel 3", exact: true }).click();
  await page.getByRole("button", { name: "Cancel them", exact: true }).click();
  await page.getByText("3 runs cancelled.").waitFor();
  await Promise.all(open.map((r) => ended(r.runId, "CANCELLED")));
  await page.goto(new URL("/runs?status=cancelled&q=wait", page.url()).href);
  await page.locator(".runs li").nth(2).waitFor();
  await page.getByLabel("Select all loaded runs").check();
  await page.getByRole("button", { name: "Delete 3", exact: true }).click();
  await soundInEachLook(page, "what is asked before runs are deleted");
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("3 runs deleted.").waitFor();
  const { items } = await call("GET", "/api/projects/default/agent-runs?status=CANCELLED&q=wait");
  assert.deepEqual(items, []);
  await quiet(page, "many runs");
  await leave(page);
});

test("a workflow is run again from a node, and failed runs are retried in bulk", async () => {
  const first = await did({ workflowId: "demo", content: "a second picnic" });
  const page = await visit(browser, `/runs/${first.id}`);
  await page.locator(".run-head [data-whole=true]").waitFor();
  await page.getByRole("button", { name: "Run again", exact: true }).click();
  await page.getByLabel("From", { exact: true }).selectOption("review");
  await page.getByText("It begins as the run was when review began").waitFor();
  await soundInEachLook(page, "what is run again from a node");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Rerun of", { exact: true }).waitFor();
  const again = await ended(decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1)));
  assert.deepEqual(again.metadata, { rerunOf: first.id, rerunFrom: "review" });
  assert.deepEqual((await logged(again)).filter((e) => e.event.type === "STEP_STARTED").map((e) => e.event.stepName), ["review"]);
  const failed = await Promise.all([1, 2].map((n) => did({ do: [{ fail: `retried ${n}` }], threadId: `retried ${n}` }, "FAILED")));
  await page.goto(new URL("/runs?status=failed&q=retried", page.url()).href);
  await page.locator(".runs li").nth(1).waitFor();
  await page.getByLabel("Select all loaded runs").check();
  await page.getByRole("button", { name: "Retry 2", exact: true }).click();
  await page.getByRole("dialog", { name: "Retry 2 runs?", exact: true }).getByRole("button", { name: "Run again", exact: true }).click();
  await page.getByText("2 runs started again.").waitFor();
  for (const run of failed) {
    const { items } = await call("GET", `/api/projects/default/agent-runs?metadata.rerunOf=${run.id}`);
    assert.equal(items.length, 1);
  }
  await quiet(page, "runs that are run again");
  await leave(page);
});

test("a run shows its timeline, graph, messages, state, events and input", async () => {
  const run = await did({ workflowId: "demo", content: "a picnic" });
  const log = await logged(run);
  const page = await visit(browser, `/runs/${run.id}`);
  await page.getByRole("heading", { name: "a picnic", exact: true }).waitFor();
  await page.locator(".node", { hasText: "review" }).locator("[data-status=COMPLETED]").waitFor();
  await page.getByRole("button", { name: /^step retrieve/ }).click();
  await page.getByRole("button", { name: /^tool clock/ }).waitFor();
  await soundInEachLook(page, "the timeline");
  await tab(page, "Messages");
  await page.getByText("I found 3 sources.").waitFor();
  await page.locator(".reasoning summary").first().click();
  await page.getByText("The reader wants to know").waitFor();
  await soundInEachLook(page, "the messages");
  await tab(page, "State");
  await page.getByText('"approved"').waitFor();
  await soundInEachLook(page, "the state");
  await page.getByRole("slider").press("Home");
  await page.getByText('"approved"').waitFor({ state: "detached" });
  await tab(page, "Input");
  await page.getByText("Workflow demo at the start of the run").waitFor();
  const input = page.getByRole("group", { name: "How to show the workflow" });
  await input.getByRole("button", { name: "Lines", exact: true }).click();
  await page.getByLabel("the workflow", { exact: true }).getByText("retrieve").first().waitFor();
  await soundInEachLook(page, "the input");
  await tab(page, "Events");
  await page.getByText(`${log.length} events`).waitFor();
  await soundInEachLook(page, "the events");
  assert.deepEqual(await shown(page), log.map((l) => l.event_id));
  const deltas = log.filter((l) => l.event.type === "STATE_DELTA");
  await page.getByRole("group", { name: "Types" }).getByRole("button", { name: /^state delta/ }).click();
  await page.getByText(`${deltas.length} of ${log.length} events`).waitFor();
  assert.deepEqual(await shown(page), deltas.map((l) => l.event_id));
  await page.locator(".event").first().click();
  assert.equal(new URL(page.url()).searchParams.get("event"), String(deltas[0].event_id));
  await page.getByRole("button", { name: "Copy JSON", exact: true }).click();
  await page.getByText("Copied").first().waitFor();
  assert.deepEqual(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())), deltas[0].event);
  await quiet(page, "one run");
  await leave(page);
});

test("a run's timeline shows model calls with their tokens and failures", async () => {
  const run = await did({ agent: "thinker", content: "What is 6 times 7?" });
  const page = await visit(browser, `/runs/${run.id}`);
  const calls = page.getByRole("button", { name: /^model openai\/gpt-test 30 \+ 12 tokens/ });
  await calls.nth(1).waitFor();
  assert.equal(await calls.count(), 2);
  assert.match(await calls.nth(0).textContent(), /tool_calls/);
  assert.match(await calls.nth(1).textContent(), /stop/);
  assert.equal(await page.title(), "Completed · What is 6 times 7? · Baton");
  await calls.nth(1).click();
  const parts = page.getByRole("tablist", { name: "Parts of the model call" });
  await page.getByLabel("user, text").getByText("What is 6 times 7?").waitFor();
  await page.getByLabel("assistant calls calculator, text").waitFor();
  await page.getByLabel("tool, text").getByText("42").waitFor();
  await soundInEachLook(page, "the prompt of a call");
  for (const [name, text] of [["Answered", "It is 42."], ["Tools", "calculator"], ["Parameters", "temperature"], ["Tokens and cost", "30 tokens"], ["Timing", "openai/gpt-test"]]) {
    await parts.getByRole("tab", { name }).click();
    await page.locator(".model-call").getByText(text, { exact: name !== "Tools" && name !== "Parameters" }).first().waitFor();
  }
  await soundInEachLook(page, "the times of a call");
  assert.match(page.url(), /[?&]line=\d+/);
  await page.reload(); // the address has the open line
  await page.getByLabel("user, text").getByText("What is 6 times 7?").waitFor();
  const failed = await did({ agent: "thinker", content: "Please fail" }, "FAILED");
  await page.goto(new URL(`/runs/${failed.id}`, page.url()).href);
  await page.getByRole("button", { name: /^failed model .*That model is out of service/ }).waitFor();
  await quiet(page, "calls of models");
  await leave(page);
});

test("a run is watched, answered, appended to, and run again", async () => {
  const schema = { type: "object", properties: { colour: { type: "string", enum: ["red", "blue"] }, count: { type: "integer", minimum: 1 } }, required: ["colour"] };
  const first = await start({ do: [{ say: "before" }, { ask: { message: "Which colour?", schema } }, { say: "after" }] });
  const page = await visit(browser, `/runs/${first.runId}?tab=messages`);
  await page.getByRole("heading", { name: "Which colour?", exact: true }).waitFor();
  await soundInEachLook(page, "a question");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByText("Required.").waitFor();
  await page.getByLabel("colour").selectOption("blue");
  await page.getByLabel("count").fill("0");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByText("At least 1.").waitFor();
  await page.getByLabel("count").fill("2");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await page.getByText("after", { exact: true }).waitFor();

  await page.getByRole("button", { name: "Say more", exact: true }).click();
  await page.getByRole("textbox", { name: "Message" }).fill('{"do":[{"say":"and more"}]}');
  await soundInEachLook(page, "saying more");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("and more", { exact: true }).waitFor();
  await page.locator(".facts").getByText("Generation").waitFor();

  await page.getByRole("button", { name: "Run again", exact: true }).click();
  await page.getByLabel("Message to send").fill('{"do":[{"say":"again"},{"ask":{"message":"wait"}}]}');
  await soundInEachLook(page, "run again");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL((url) => !url.href.includes(first.runId));
  await page.getByRole("heading", { name: "wait", exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.locator(".run-head [data-status=CANCELLED]").waitFor();

  await page.getByRole("button", { name: "curl", exact: true }).click();
  const command = await page.getByRole("dialog").locator("pre").first().textContent();
  assert.match(command, /^curl 'http:\/\/.*\/agent-runs\//);
  await soundInEachLook(page, "curl");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await soundInEachLook(page, "what is asked before a run is deleted");
  await page.getByRole("button", { name: "Delete it", exact: true }).click();
  await page.getByText("Run deleted.").waitFor();
  await quiet(page, "what was done to a run");
  await leave(page);
});

test("approvals are answered in place, with edited arguments, or refused", async () => {
  const run = await did({ workflowId: "guarded", content: "x" }, "WAITING");
  const page = await visit(browser, `/runs/${run.id}`);
  await page.locator(".node", { hasText: "never" }).locator("[data-status=SKIPPED], [data-status=PENDING]").waitFor();
  await page.getByRole("button", { name: "Edit the arguments", exact: true }).click();
  await page.getByLabel("expression").fill("");
  await page.getByRole("button", { name: "Allow with these arguments", exact: true }).click();
  await page.getByText("Required.").waitFor();
  await page.getByLabel("expression").fill("6*6");
  await page.getByRole("tab", { name: "JSON", exact: true }).click();
  const editor = page.getByLabel("Arguments");
  await editor.getByText("6*6").waitFor();
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type('{"expression":"6*7"');
  await page.keyboard.press("Delete"); // the brace that the editor adds
  await page.keyboard.type("}");
  await soundInEachLook(page, "an approval");
  await page.keyboard.press("Tab"); // Tab moves to the next control
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Allow with these arguments");
  await page.getByRole("button", { name: "Allow with these arguments", exact: true }).click();
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await page.locator(".node", { hasText: "never" }).locator("[data-status=SKIPPED]").waitFor();
  await page.locator(".line[data-kind=wait]", { hasText: "answered by local" }).waitFor();
  await page.locator(".line[data-kind=tool]", { hasText: 'called with {"expression":"6*7"}, requested with {"expression":"1+1"}' }).click();
  await page.locator(".line-detail .call summary").click();
  await page.locator(".line-detail").getByText("Allowed with edited arguments by local").waitFor();
  await soundInEachLook(page, "the timeline of an approval with other arguments");
  await tab(page, "Messages");
  const made = page.locator(".call", { hasText: "calculator" });
  await made.locator("summary", { hasText: "edited" }).click();
  await made.getByText("42").first().waitFor();
  for (const [title, args] of [["Requested arguments", "1+1"], ["Edited arguments", "6*7"]]) {
    await made.locator(".beside > div", { hasText: title }).getByText(args).waitFor();
  }
  await made.getByText("Allowed with edited arguments by local").waitFor();
  await soundInEachLook(page, "a call with other arguments");
  await page.goto(new URL(`/threads/${run.conversationId}`, page.url()).href);
  await page.locator(".call summary", { hasText: "edited" }).waitFor();
  await leave(page);

  const other = await did({ workflowId: "guarded", content: "y" }, "WAITING");
  const again = await visit(browser, `/runs/${other.id}`);
  await again.getByRole("button", { name: "Refuse", exact: true }).click();
  await again.locator(".run-head [data-status=FAILED], .run-head [data-status=COMPLETED]").waitFor();
  await quiet(again, "a refusal");
  await leave(again);
});

test("the page of a run survives a kill of the server without gaps, repeats or a reload", async () => {
  const { runId } = await start({ do: [{ say: "begin" }, { tokens: 400, delayMs: 10 }, { tool: "clock" }, { say: "the end" }] });
  const page = await visit(browser, `/runs/${runId}?tab=events`);
  await page.evaluate(() => (window.kept = true));
  await page.waitForFunction(() => parseInt(document.querySelector(".search-events ~ .num")?.textContent ?? "0") > 50);
  assert.equal((await fetch(`${CONTROL}/crash`, { method: "POST" })).status, 200);
  const run = await ended(runId);
  const log = await logged(run);
  await page.getByText(`${log.length} events`).waitFor();
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await page.getByRole("status").filter({ hasText: "cannot be reached" }).waitFor({ state: "detached" });
  assert.deepEqual(await shown(page), log.map((l) => l.event_id));
  assert.deepEqual(log.map((l) => l.event_id), log.map((_, i) => i + 1));
  assert.ok(await page.evaluate(() => window.kept), "the page was loaded again");
  // While the server is down, the browser complains itself.
  assert.deepEqual(page.complaints.filter((c) => !/ERR_CONNECTION|ERR_SOCKET|WebSocket connection to|ERR_EMPTY|503/.test(c)), []);
  await leave(page);
});

test("the playground survives a kill of the server during an answer without a reload", async () => {
  const page = await visit(browser, "/playground/killed?agent=scripted");
  await page.evaluate(() => (window.kept = true));
  await page.getByRole("textbox", { name: "Message" }).fill(JSON.stringify({ do: [{ say: "begin" }, { tokens: 400, delayMs: 10 }, { say: "the end" }] }));
  await page.getByRole("button", { name: "Send", exact: true }).click();
  const answers = page.locator(".message[data-role=assistant]");
  await page.waitForFunction(() => [...document.querySelectorAll(".message[data-role=assistant]")].some((m) => m.textContent.length > 200));
  assert.equal((await fetch(`${CONTROL}/crash`, { method: "POST" })).status, 200);
  await answers.filter({ hasText: "the end" }).waitFor();
  await page.locator(".outcome [data-status=COMPLETED]").waitFor();
  const { messages } = await call("GET", "/api/v1/threads/killed/messages");
  const words = (text) => text.replaceAll(/\s+/g, " ").trim();
  const said = messages.filter((m) => m.role === "assistant").map((m) => words(m.content));
  const seen = await answers.locator(".prose").evaluateAll((list) => list.map((e) => e.textContent));
  assert.deepEqual(seen.map(words), said); // the cut answer is written again, and shown once
  assert.ok(await page.evaluate(() => window.kept), "the page was loaded again");
  assert.deepEqual(page.complaints.filter((c) => !/ERR_CONNECTION|ERR_SOCKET|WebSocket connection to|ERR_EMPTY|503/.test(c)), []);
  await leave(page);
});

test("a long run is read once, its lists have few rows in the page, and huge values are shown in part", async () => {
  const run = await did({ do: [{ tokens: 4_000 }, ...Array(300).fill({ tool: "clock" }), { state: { list: [1] } }, { tokens: 1, size: 900_000 }, { state: { huge: "x".repeat(900_000) } }] });
  const last = (await logged(run)).length;
  const page = await visit(browser, `/runs/${run.id}?tab=events`);
  await page.locator(".run-head [data-whole=true]", { hasText: last.toLocaleString("en") }).waitFor();
  const asked = page.asked.filter((url) => url.includes("/events?"));
  assert.ok(asked.length <= Math.ceil(last / 500) + 4 && new Set(asked).size === asked.length, asked.join("\n"));
  const rows = page.getByRole("region", { name: "Events", exact: true });
  const text = rows.locator(".event", { hasText: "4,000 events" }); // the pieces of a text are one row, which opens
  await text.click();
  await rows.locator(".event", { hasText: "TEXT_MESSAGE_CONTENT" }).nth(3).waitFor();
  await soundInEachLook(page, "an open text");
  await text.click();
  await rows.locator(".event", { hasText: "TEXT_MESSAGE_CONTENT" }).nth(1).waitFor({ state: "detached" });
  await page.goto(new URL(`/runs/${run.id}?tab=events&event=2000`, page.url()).href); // an address opens the text with its event
  await rows.locator(".event[aria-pressed=true]", { hasText: "2000" }).waitFor();
  await page.getByLabel("Fold texts").uncheck();
  await untilShown(rows, rows.locator(".event", { hasText: "RUN_FINISHED" }));
  assert.ok((await rows.locator(".event").count()) < 100);
  await tab(page, "Timeline");
  await page.getByText(/^30\d lines$/).waitFor();
  assert.ok((await page.locator(".line").count()) < 100);
  await tab(page, "Messages");
  await untilShown(page.getByRole("region", { name: "Messages" }), page.getByText(/more characters/));
  assert.ok((await page.locator(".call").count()) < 200);
  assert.ok((await page.content()).length < 1_500_000);
  await tab(page, "State");
  await page.getByRole("button", { name: /more characters/ }).waitFor();
  await page.getByRole("button", { name: "Previous change", exact: true }).click();
  await page.getByRole("button", { name: /more characters/ }).waitFor({ state: "detached" });
  await sound(page, "a long run");
  await page.goto(new URL("/runs", page.url()).href);
  await page.locator(".runs li").first().waitFor();
  assert.ok((await page.content()).length < 200_000, "the list has what runs were asked in full");
  await leave(page);
});

test("a long text that is still loading is shown unparsed, in few parts", async () => {
  const paragraphs = Array.from({ length: 1_200 }, (_, i) => `**${String(i).padStart(4, "0")}${"x".repeat(160)}**\n\n`).join("");
  const run = await did({ agent: "echo", content: paragraphs });
  const page = await visit(browser, "/agents");
  let go;
  const held = new Promise((done) => (go = done));
  await page.route(/\/events\?.*after_event_id=/, (route) => held.then(() => route.continue()));
  await page.goto(new URL(`/runs/${run.id}?tab=messages`, page.url()).href);
  const answer = page.locator(".message[data-role=assistant]");
  await answer.getByText("0300x").first().waitFor();
  assert.equal(await answer.locator("strong").count(), 0);
  assert.ok((await answer.locator(".piece").count()) > 10);
  go();
  await page.locator(".run-head [data-whole=true]").waitFor();
  await answer.getByText("1199x").first().waitFor();
  await quiet(page, "a long text");
  await leave(page);
});

test("runs of a thread share a state, and a rerun can replace a message", async () => {
  const one = await did({ do: [{ state: { first: 1 } }, { say: "one" }], threadId: "states" });
  const two = await did({ do: [{ state: { second: 2 } }, { say: "two" }], threadId: "states" });
  await call("PATCH", `/api/v1/threads/${one.conversationId}`, { title: "A thread with a name" });
  const page = await visit(browser, `/runs/${two.id}?tab=state`);
  await page.getByRole("link", { name: "A thread with a name" }).waitFor();
  await page.getByText("1 of 1").waitFor();
  await page.getByLabel("Over all runs of the thread").check();
  await page.getByText("2 of 2").waitFor();
  for (const name of ["first", "second"]) await page.locator(".state-tree").getByText(`${name}:`).waitFor();
  await page.getByRole("slider").press("Home");
  await page.locator(".state-tree").getByText("second:").waitFor({ state: "detached" });
  await soundInEachLook(page, "the state of a thread");
  await page.getByRole("link", { name: /^Event \d+ of run/ }).click();
  await page.waitForURL(`**/runs/${one.id}?**`);

  await page.goto(new URL(`/runs/${two.id}`, page.url()).href);
  await page.getByRole("button", { name: "Run again", exact: true }).click();
  await page.getByLabel("Message to send").fill('{"do":[{"say":"otherwise"}]}');
  await page.getByLabel(/replacing its message/).check();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL((url) => !url.href.includes(two.id));
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  const { messages } = await call("GET", "/api/v1/threads/states/messages");
  assert.deepEqual(messages.filter((m) => m.role === "assistant").map((m) => m.content), ["one", "otherwise"]);
  await quiet(page, "an edited run");
  await leave(page);
});

test("the console works with the keyboard only", async () => {
  await did({ agent: "echo", content: "by keys" });
  const page = await visit(browser, "/");
  const { keyboard } = page;
  for (const [key, path] of [["t", "/threads"], ["p", "/playground"], ["a", "/agents"], ["w", "/waiting"], ["m", "/admin"], ["o", "/"], ["r", "/runs"]]) {
    await page.locator("h1").first().waitFor();
    await keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys", exact: true }).getByText("search", { exact: true }).waitFor();
    await keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.evaluate(() => document.activeElement?.blur());
    await keyboard.press("g");
    await keyboard.press(key);
    await page.waitForURL((url) => url.pathname.startsWith(path) && (path !== "/" || url.pathname === "/"));
  }
  await keyboard.press("/");
  await page.getByRole("combobox", { name: "Search" }).waitFor();
  await keyboard.type("by keys");
  await page.getByRole("option", { name: /by keys/ }).first().waitFor();
  await soundInEachLook(page, "the search");
  await keyboard.press("Enter");
  await page.waitForURL("**/runs/**");
  await page.getByRole("heading", { name: "by keys", exact: true }).waitFor();
  for (const [key, name] of [["2", "Messages"], ["3", "State"], ["4", "Events"], ["5", "Input"], ["1", "Timeline"]]) {
    await keyboard.press(key);
    await page.getByRole("tab", { name: new RegExp(`^${name}`), selected: true }).waitFor();
  }
  await keyboard.press("e");
  await page.getByLabel("Message to send").waitFor();
  await keyboard.press("Control+a");
  await keyboard.type("asked by keys");
  for (let tries = 0; tries < 10 && (await page.evaluate(() => document.activeElement.textContent)) !== "Run"; tries++) await keyboard.press("Tab");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "asked by keys", exact: true }).waitFor();
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await keyboard.press("a");
  await page.getByRole("textbox", { name: "Message" }).waitFor();
  await keyboard.type("and more by keys");
  for (let tries = 0; tries < 5 && (await page.evaluate(() => document.activeElement.textContent)) !== "Send"; tries++) await keyboard.press("Tab");
  await keyboard.press("Enter");
  await page.locator(".facts").getByText("Generation").waitFor();
  await quiet(page, "what keys do");
  const open = await did({ do: [{ ask: { message: "by a key?" } }] }, "WAITING");
  await page.goto(new URL(`/runs/${open.id}`, page.url()).href);
  await page.getByRole("heading", { name: "by a key?", exact: true }).waitFor();
  await keyboard.press("c");
  const asks = page.getByRole("dialog", { name: "Cancel this run?", exact: true });
  await soundInEachLook(page, "what is asked before a key cancels a run");
  await asks.getByRole("button", { name: "Keep", exact: true }).click();
  assert.equal((await call("GET", `/api/projects/default/agent-runs/${open.id}`)).status, "WAITING");
  await keyboard.press("c");
  await asks.getByRole("button", { name: "Cancel it", exact: true }).click();
  await page.locator(".run-head [data-status=CANCELLED]").waitFor();
  await leave(page);
});

test("typing and immediate Enter opens the hit for the whole text", async () => {
  for (const word of ["first", "second"]) await did({ agent: "echo", content: `sought ${word}`, threadId: `sought ${word}` });
  const page = await visit(browser, "/admin");
  await page.getByRole("heading", { name: "Admin", exact: true }).waitFor();
  await page.keyboard.press("/");
  const field = page.getByRole("combobox", { name: "Search" });
  await field.fill("sought first");
  await page.getByRole("option", { name: /sought first/ }).first().waitFor();
  await field.fill("sought second");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "sought second", exact: true }).first().waitFor();
  await page.goto(new URL("/threads", page.url()).href);
  await page.getByLabel("Title", { exact: true }).fill("sought");
  await page.getByLabel("Archived").check();
  await page.waitForURL((url) => url.searchParams.get("q") === "sought" && url.searchParams.get("archived") === "true");
  await quiet(page, "what is sought");
  await leave(page);
});

test("numbers with many digits are shown and sent unchanged", async () => {
  const [large, long] = ["12345678901234567890", "0.12345678901234567890"];
  const say = `{"do":[{"state":{"large":${large},"long":${long},"small":7}},{"tool":"sleep","args":{"ms":1,"id":${large}}},{"ask":{"message":"How many?","schema":{"type":"object","properties":{"count":{"type":"integer"}}}}},{"ask":{"message":"And?","schema":{}}}]}`;
  const { runId } = await start({ agent: "scripted", content: say, threadId: "digits" });
  const run = await ended(runId, "WAITING");
  const page = await visit(browser, `/runs/${runId}?tab=state`);
  for (const text of [large, long, "7"]) await page.locator(".state-tree").getByText(text, { exact: true }).waitFor();
  await tab(page, "Messages");
  await page.locator(".call .tree").getByText(large, { exact: true }).waitFor();
  await tab(page, "Events");
  await page.getByLabel("Text in events").fill(large);
  await page.locator(".event", { hasText: "STATE_" }).filter({ hasText: large }).click();
  await page.getByRole("button", { name: "Copy JSON", exact: true }).click();
  await page.getByText("Copied").first().waitFor();
  assert.ok((await page.evaluate(() => navigator.clipboard.readText())).includes(long));
  const sent = [];
  page.on("request", (r) => r.url().includes("/resume") && sent.push(r.postData()));
  await page.getByLabel("count").fill("9007199254740993");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByRole("heading", { name: "And?", exact: true }).waitFor();
  assert.match(sent[0], /"count":9007199254740993\b/);
  // An approval of a call with such a number: the editor shows and sends it unchanged.
  await page.route(`**/agent-runs/${runId}*`, async (route) => {
    const response = await route.fetch();
    const now = JSON.parse(await response.text());
    const body = JSON.stringify({ ...now, interrupts: now.interrupts.map((i) => ({ ...i, responseSchema: undefined, metadata: { toolName: "pay", input: { to: "@" } } })) });
    await route.fulfill({ response, body: body.replace('"@"', large) });
  });
  await page.reload();
  await page.getByRole("button", { name: "Edit the arguments", exact: true }).click();
  await page.getByLabel("Arguments").getByText(large).waitFor();
  await page.getByRole("button", { name: "Allow with these arguments", exact: true }).click();
  while (sent.length < 2) await page.evaluate(() => 0);
  assert.ok(sent[1].includes(`"to":${large}`), sent[1]);
  await quiet(page, "numbers of many digits");
  await leave(page);
  assert.equal(run.id, runId);
});

test("a rerun sends the whole input, from the page and from a terminal", async () => {
  const image = { type: "image", source: { type: "data", value: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", mimeType: "image/png" } };
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "before that", metadata: { mark: 1 } },
    { role: "assistant", content: "an answer" },
    { role: "user", content: [{ type: "text", text: `asked '${"long ".repeat(2_000)}` }, image], metadata: { mark: 2 } },
  ];
  const { runId } = await start({ agent: "echo", messages, state: { kept: [1] }, contextItemIds: ["one", "two"], threadId: "all of it" });
  await ended(runId);
  const asked = async (id) => {
    const run = await ended(id);
    const [{ event }, next] = await logged(run);
    return { run, messages: event.input.messages.map(({ id: _, ...m }) => m), state: next.event.snapshot };
  };
  const before = await asked(runId);
  assert.deepEqual(before.messages, messages);
  const page = await visit(browser, `/runs/${runId}`);
  const again = async (edit) => {
    await page.goto(new URL(`/runs/${runId}`, page.url()).href);
    await page.locator(".run-head [data-whole=true]").waitFor();
    await page.getByRole("button", { name: "Run again", exact: true }).click();
    if (edit) await page.getByLabel("Message to send").fill(edit);
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.waitForURL((url) => !url.href.includes(runId));
    return asked(decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1)));
  };
  const same = await again();
  assert.deepEqual([same.messages, same.state, same.run.contextItemIds], [messages, { kept: [1] }, ["one", "two"]]);
  const other = await again("asked otherwise");
  assert.deepEqual(other.messages, [...messages.slice(0, 3), { ...messages[3], content: [{ type: "text", text: "asked otherwise" }, image] }]);
  assert.deepEqual([other.state, other.run.contextItemIds], [{ kept: [1] }, ["one", "two"]]);

  await page.goto(new URL(`/runs/${runId}`, page.url()).href);
  await page.locator(".run-head [data-whole=true]").waitFor();
  await page.getByRole("button", { name: "curl", exact: true }).click();
  await page.getByRole("button", { name: "Copy: The same again", exact: true }).click();
  await page.getByRole("dialog").getByLabel("Copied").waitFor();
  const { stdout } = await execute("sh", ["-c", `${await page.evaluate(() => navigator.clipboard.readText())} -s`]);
  const typed = await asked(JSON.parse(stdout).runId);
  assert.deepEqual([typed.messages, typed.state, typed.run.contextItemIds], [messages, { kept: [1] }, ["one", "two"]]);
  const commands = await page.getByRole("dialog").locator("pre").allTextContents();
  for (const command of commands) assert.ok(/projectId|\/api\/projects\/default\//.test(command) || command.length > 4_000, command);
  await quiet(page, "what was asked again");
  await leave(page);
});

test("a prompt is opened in the playground, and filters are saved", async () => {
  const run = await did({ agent: "thinker", content: "What is 6 times 9?", threadId: "prompted" });
  const page = await visit(browser, `/runs/${run.id}`);
  const calls = page.getByRole("button", { name: /^model openai\/gpt-test/ });
  await calls.nth(1).click(); // its prompt ends with the result of a tool
  await page.getByRole("button", { name: "Open in the playground", exact: true }).click();
  await page.getByText("3 messages of a prompt come before yours").click();
  await page.getByLabel("Messages before yours").getByText("6*7").waitFor();
  await page.getByRole("textbox", { name: "Model", exact: true }).fill("gpt-other");
  await soundInEachLook(page, "a prompt in the playground");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("It is 42.").waitFor();
  const [played] = (await call("GET", "/api/projects/default/agent-runs?agent=thinker&limit=1")).items;
  const { overrides } = await call("GET", `/api/projects/default/agent-runs/${played.id}`);
  assert.deepEqual(overrides, { model: "gpt-other", system: "", parameters: { temperature: 0.5 } });
  await page.goto(new URL(`/runs/${run.id}`, page.url()).href);
  await calls.first().click();
  await page.getByRole("button", { name: "Open in the playground", exact: true }).click();
  await page.getByLabel("Message", { exact: true }).fill("What is 6 times 10?");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("It is 42.").waitFor();
  await page.goto(new URL(`/runs/${run.id}`, page.url()).href);
  await calls.nth(1).click();
  await page.getByRole("button", { name: "Run again from here", exact: true }).click();
  await page.getByText("Rerun of", { exact: true }).waitFor();
  const again = await ended(decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1)));
  assert.equal(again.metadata.rerunOf, run.id);
  assert.equal((await call("GET", `/api/projects/default/agent-runs/${again.id}/model-calls`)).items.length, 1);

  await page.goto(new URL("/runs?agent=thinker&q=times", page.url()).href);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByLabel("Name", { exact: true }).fill("thinking");
  await soundInEachLook(page, "what filters are saved as");
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.goto(new URL("/runs", page.url()).href);
  await page.getByLabel("Saved filters").selectOption("thinking");
  await page.waitForURL(/agent=thinker&q=times$/);
  await soundInEachLook(page, "saved filters");
  await page.getByRole("button", { name: "Remove from saved", exact: true }).click();
  await page.getByLabel("Saved filters").waitFor({ state: "detached" });
  assert.deepEqual((await call("GET", "/api/v1/me/views")).items, []);
  await quiet(page, "prompts and filters");
  await leave(page);
});

test("a rerun is linked with its origin and compared with it, and both are downloaded", async () => {
  const first = await did({ agent: "thinker", content: "What is 6 times 7?", threadId: "compared", metadata: { tags: ["compared"] } });
  const page = await visit(browser, `/runs/${first.id}`);
  await page.locator(".run-head [data-whole=true]").waitFor();
  const saved = async (press) => {
    const [file] = await Promise.all([page.waitForEvent("download"), press()]);
    return readFile(await file.path(), "utf8");
  };
  const { run, events } = JSON.parse(await saved(() => page.getByRole("button", { name: "Download", exact: true }).click()));
  assert.equal(run.id, first.id);
  assert.deepEqual(events.map((e) => e.event_id), (await logged(first)).map((e) => e.event_id));
  await page.getByRole("button", { name: "Run again", exact: true }).click();
  await page.getByLabel("Message to send").fill("What is 6 times 8?");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Rerun of", { exact: true }).waitFor();
  const again = decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1));
  await ended(again);
  assert.deepEqual((await ended(again)).metadata, { tags: ["compared"], rerunOf: first.id });
  await page.goto(new URL(`/runs/${first.id}`, page.url()).href);
  await page.getByText("Reruns", { exact: true }).waitFor();
  await page.goto(new URL(`/runs/${again}`, page.url()).href);
  await page.getByRole("link", { name: "compare", exact: true }).click();
  await page.getByLabel("Differences of the inputs").locator("del").getByText("7").waitFor();
  await page.getByLabel("Differences of the inputs").locator("ins").getByText("8").waitFor();
  assert.equal(await page.getByLabel("Differences of the answers").locator("ins, del").count(), 0);
  const lines = page.getByRole("list", { name: "Lines of both timelines" });
  assert.equal(await lines.getByText("not there").count(), 0);
  await lines.getByRole("button", { name: /^openai\/gpt-test/ }).first().click();
  await page.getByLabel("Differences of the prompts").locator("ins").getByText("8").waitFor();
  await soundInEachLook(page, "two compared runs");
  await page.goto(new URL("/runs?tag=compared", page.url()).href);
  await page.locator(".runs li").nth(1).waitFor();
  const list = (await saved(() => page.getByRole("button", { name: "CSV", exact: true }).click())).trim().split("\r\n");
  assert.equal(list.length, 3);
  assert.match(list[2], new RegExp(`^${first.id},COMPLETED,thinker,`));
  await page.getByLabel("Select all loaded runs").check();
  await page.getByRole("link", { name: "Compare", exact: true }).click();
  await page.getByLabel("Differences of the inputs").locator("ins").getByText("8").waitFor();
  await page.goto(new URL(`/threads/${first.conversationId}`, page.url()).href);
  const text = await saved(() => page.getByRole("button", { name: "Markdown", exact: true }).click());
  assert.match(text, /^# .*\n\n## \d{4}-\d\d-\d\d\n\n\*\*user\*\*\n\nWhat is 6 times 7\?\n[^]*Calls `calculator`:[^]*It is 42\./);
  await quiet(page, "compared runs");
  await leave(page);
});

test("the state is shown at an event, and is unknown if the previous run was deleted", async () => {
  const one = await did({ do: [{ state: { first: 1 } }], threadId: "as of" });
  const two = await did({ do: [{ state: { second: 1 } }, { say: "between" }, { state: { second: 2 } }], threadId: "as of" });
  const page = await visit(browser, `/runs/${two.id}?tab=events`);
  await page.getByLabel("Text in events").fill("between");
  await page.locator(".event", { hasText: "TEXT_MESSAGE_CONTENT" }).click();
  await page.getByRole("button", { name: "State here", exact: true }).click();
  await page.getByText("1 of 2").waitFor();
  await page.locator(".state-tree").getByText("first:").waitFor();
  await soundInEachLook(page, "the state as of an event");
  await tab(page, "Events");
  await tab(page, "State");
  await page.getByText("2 of 2").waitFor();
  await call("DELETE", `/api/projects/default/agent-runs/${one.id}`);
  await page.reload();
  await page.getByText("The log does not contain the state before the run").waitFor();
  assert.equal(await page.locator(".state-tree").getByText("first:").count(), 0);
  await quiet(page, "the state as of an event");
  await leave(page);
});

test("markup in names, messages, results, state and errors runs no script", async () => {
  const run = await did({
    do: [{ say: hostile }, { reason: hostile }, { tool: "fail", args: { message: hostile } }, { state: { [hostile]: hostile } }, { fail: hostile, code: "x<b>" }],
    threadId: hostile,
  }, "FAILED");
  const page = await visit(browser, `/runs/${run.id}`);
  await page.getByText("onerror").first().waitFor();
  for (const name of ["Messages", "State", "Events", "Input", "Timeline"]) {
    await tab(page, name);
    await page.getByText("onerror").first().waitFor();
  }
  await tab(page, "Messages");
  await page.locator(".reasoning summary").click();
  await soundInEachLook(page, "a hostile run");
  assert.equal(await page.locator("a[href^=javascript]").count(), 0);
  for (const path of ["/", "/runs"]) {
    await page.goto(new URL(path, page.url()).href);
    await page.getByText("onerror").first().waitFor();
  }
  await page.keyboard.press("/");
  await page.getByRole("combobox", { name: "Search" }).fill("onerror");
  await page.getByRole("listbox", { name: "Found" }).getByRole("option").first().waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await quiet(page, "hostile pages");
  await leave(page);
});
