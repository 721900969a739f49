// A person looks at the overview, the runs and one run in the console of Baton at BATON_URL, which POST CONTROL/crash kills and starts.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, call, did, ended, leave, logged, looks, quiet, sound, start, visit } from "./console-page.mjs";

const { CONTROL } = process.env;

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> [a](javascript:window.hacked=1) ![p](javascript:1) **bold**`;

const tab = (page, name) => page.getByRole("tab", { name: new RegExp(`^${name}`) }).click();

// shown are the ids of all events that the page has, in the order they stand there.
const shown = async (page) => {
  const rows = page.getByRole("region", { name: "Events", exact: true });
  await rows.waitFor();
  const ids = [];
  await rows.evaluate((e) => e.scrollTo(0, 0));
  for (let before = -1; ; ) {
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const seen = await rows.locator(".event").evaluateAll((list) =>
      list
        .map((e) => ({ id: Number(e.querySelector(".id").textContent), top: new DOMMatrix(getComputedStyle(e).transform).f }))
        .sort((a, b) => a.top - b.top),
    );
    for (const { id, top } of seen) ids[Math.round(top / 30)] = id;
    const at = await rows.evaluate((e) => {
      e.scrollBy(0, e.clientHeight - 60);
      return e.scrollTop;
    });
    if (at === before) return ids;
    before = at;
  }
};

test("the overview tells how things are", async () => {
  await did({ agent: "echo", content: "fine" });
  await did({ do: [{ fail: "it is broken", code: "broken" }] }, "FAILED");
  const asks = await did({ do: [{ ask: { message: "Shall we?" } }], threadId: "asks" }, "WAITING");
  for (const look of looks) {
    const page = await visit(browser, "/", look);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    const failed = page.locator(".panel", { hasText: "Failed last" });
    await failed.getByText("it is broken").first().waitFor();
    await page.locator(".panel", { hasText: "Waiting for an answer" }).getByRole("link", { name: "Shall we?" }).waitFor();
    await sound(page, `the overview at ${look.width} px, ${look.theme}`);
    await leave(page);
  }
  const page = await visit(browser, "/");
  await page.getByRole("link", { name: "Shall we?" }).first().click();
  await page.waitForURL(`**/runs/${asks.id}**`);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".run-head [data-status=CANCELLED]").waitFor();
  await quiet(page, "the way from the overview");
  await leave(page);
});

test("the list of runs is live, is filtered by its address, and is walked with keys", async () => {
  await did({ agent: "echo", content: "needle in a haystack" });
  await did({ do: [{ fail: "no", code: "nope" }] }, "FAILED");
  for (const look of looks) {
    const page = await visit(browser, "/runs", look);
    await page.getByRole("link", { name: "needle in a haystack" }).waitFor();
    await sound(page, `the runs at ${look.width} px, ${look.theme}`);
    await leave(page);
  }
  const page = await visit(browser, "/runs");
  await page.getByRole("group", { name: "Status" }).getByRole("button", { name: "Failed" }).click();
  await page.waitForURL("**/runs?status=failed");
  await page.getByRole("link", { name: "needle in a haystack" }).waitFor({ state: "detached" });
  await page.reload();
  await page.locator(".runs li").first().waitFor();
  const statuses = await page.locator(".runs li .badge").evaluateAll((list) => list.map((b) => b.dataset.status));
  assert.ok(statuses.length > 0 && statuses.every((s) => s === "FAILED"), String(statuses));
  await page.getByRole("button", { name: "Clear" }).click();
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
  await page.getByRole("heading", { name: "needle in a haystack" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.waitForURL(/\/runs$/);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).getByText("the next run").waitFor();
  await sound(page, "the list of keys");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await leave(page);
});

test("runs are cancelled and deleted many at a time", async () => {
  const open = await Promise.all([1, 2, 3].map((n) => start({ do: [{ say: `wait ${n}` }, { ask: { message: "go on?" } }], threadId: `bulk${n}` })));
  await Promise.all(open.map((r) => ended(r.runId, "WAITING")));
  const page = await visit(browser, "/runs?status=waiting&q=wait");
  await page.locator(".runs li").nth(2).waitFor();
  await page.getByLabel("Pick all that are loaded").check();
  await page.getByRole("button", { name: "Cancel 3" }).click();
  await page.getByText("3 runs cancelled.").waitFor();
  await Promise.all(open.map((r) => ended(r.runId, "CANCELLED")));
  await page.goto(new URL("/runs?status=cancelled&q=wait", page.url()).href);
  await page.locator(".runs li").nth(2).waitFor();
  await page.getByLabel("Pick all that are loaded").check();
  await page.getByRole("button", { name: "Delete 3" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("3 runs deleted.").waitFor();
  const { items } = await call("GET", "/api/projects/default/agent-runs?status=CANCELLED&q=wait");
  assert.deepEqual(items, []);
  await quiet(page, "many runs");
  await leave(page);
});

test("a run shows its timeline, graph, messages, state, events and input", async () => {
  const run = await did({ workflowId: "demo", content: "a picnic" });
  const log = await logged(run);
  for (const look of looks) {
    const page = await visit(browser, `/runs/${run.id}`, look);
    await page.getByRole("heading", { name: "a picnic" }).waitFor();
    await page.locator(".node", { hasText: "review" }).locator("[data-status=COMPLETED]").waitFor();
    await page.getByRole("button", { name: /^step retrieve/ }).click();
    await page.getByRole("button", { name: /^tool clock/ }).waitFor();
    await sound(page, `the timeline at ${look.width} px, ${look.theme}`);
    await tab(page, "Messages");
    await page.getByText("I found 3 sources.").waitFor();
    await page.locator(".reasoning summary").first().click();
    await page.getByText("The reader wants to know").waitFor();
    await sound(page, `the messages at ${look.width} px, ${look.theme}`);
    await tab(page, "State");
    await page.getByText('"approved"').waitFor();
    await page.getByRole("slider").press("Home");
    await page.getByText('"approved"').waitFor({ state: "detached" });
    await sound(page, `the state at ${look.width} px, ${look.theme}`);
    await tab(page, "Events");
    await page.getByText(`${log.length} events`).waitFor();
    await sound(page, `the events at ${look.width} px, ${look.theme}`);
    await tab(page, "Input");
    await page.getByText("State, tools and context").waitFor();
    await sound(page, `the input at ${look.width} px, ${look.theme}`);
    await leave(page);
  }
  const page = await visit(browser, `/runs/${run.id}?tab=events`);
  await page.getByText(`${log.length} events`).waitFor();
  assert.deepEqual(await shown(page), log.map((l) => l.event_id));
  const deltas = log.filter((l) => l.event.type === "STATE_DELTA");
  await page.getByRole("group", { name: "Types" }).getByRole("button", { name: /^state delta/ }).click();
  await page.getByText(`${deltas.length} of ${log.length} events`).waitFor();
  assert.deepEqual(await shown(page), deltas.map((l) => l.event_id));
  await page.locator(".event").first().click();
  await page.getByRole("button", { name: "Copy JSON" }).click();
  await page.getByText("Copied").first().waitFor();
  assert.deepEqual(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())), deltas[0].event);
  await quiet(page, "one run");
  await leave(page);
});

test("a run is watched, answered, said more to, and run again", async () => {
  const schema = { type: "object", properties: { colour: { type: "string", enum: ["red", "blue"] }, count: { type: "integer", minimum: 1 } }, required: ["colour"] };
  const first = await start({ do: [{ say: "before" }, { ask: { message: "Which colour?", schema } }, { say: "after" }] });
  for (const look of looks) {
    const page = await visit(browser, `/runs/${first.runId}`, look);
    await page.getByRole("heading", { name: "Which colour?", exact: true }).waitFor();
    await sound(page, `a question at ${look.width} px, ${look.theme}`);
    await leave(page);
  }
  const page = await visit(browser, `/runs/${first.runId}?tab=messages`);
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByText("This is needed.").waitFor();
  await page.getByLabel("colour").selectOption("blue");
  await page.getByLabel("count").fill("0");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByText("At least 1.").waitFor();
  await page.getByLabel("count").fill("2");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await page.getByText("after", { exact: true }).waitFor();

  await page.getByRole("button", { name: "Say more" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill('{"do":[{"say":"and more"}]}');
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("and more", { exact: true }).waitFor();
  await page.locator(".facts").getByText("Generation").waitFor();

  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByLabel("What it is asked").fill('{"do":[{"say":"again"},{"ask":{"message":"wait"}}]}');
  await sound(page, "run again");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL((url) => !url.href.includes(first.runId));
  await page.getByRole("heading", { name: "wait", exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".run-head [data-status=CANCELLED]").waitFor();

  await page.getByRole("button", { name: "curl" }).click();
  const command = await page.getByRole("dialog").locator("pre").first().textContent();
  assert.match(command, /^curl 'http:\/\/.*\/agent-runs\//);
  await sound(page, "curl");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("The run is deleted.").waitFor();
  await quiet(page, "what was done to a run");
  await leave(page);
});

test("approvals are given in place, with other arguments, or refused", async () => {
  const run = await did({ workflowId: "guarded", content: "x" }, "WAITING");
  const page = await visit(browser, `/runs/${run.id}`);
  await page.locator(".node", { hasText: "never" }).locator("[data-status=SKIPPED], [data-status=PENDING]").waitFor();
  await page.getByRole("button", { name: "Edit the arguments" }).click();
  const editor = page.getByLabel("Arguments");
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type('{"expression":"6*7"');
  await page.keyboard.press("Delete"); // the brace that the editor closes
  await page.keyboard.type("}");
  await sound(page, "an approval");
  await page.getByRole("button", { name: "Allow with these arguments" }).click();
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await page.locator(".node", { hasText: "never" }).locator("[data-status=SKIPPED]").waitFor();
  await tab(page, "Messages");
  await page.locator(".call", { hasText: "calculator" }).locator("summary").click();
  await page.locator(".call", { hasText: "calculator" }).getByText("42").first().waitFor();
  await leave(page);

  const other = await did({ workflowId: "guarded", content: "y" }, "WAITING");
  const again = await visit(browser, `/runs/${other.id}`);
  await again.getByRole("button", { name: "Refuse" }).click();
  await again.locator(".run-head [data-status=FAILED], .run-head [data-status=COMPLETED]").waitFor();
  await quiet(again, "a refusal");
  await leave(again);
});

test("the server is killed under an open run: no event is missing, none is there twice, and nobody reloads", async () => {
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
  // While nobody listens a browser complains itself.
  assert.deepEqual(page.complaints.filter((c) => !/ERR_CONNECTION|WebSocket connection to|ERR_EMPTY|503/.test(c)), []);
  await leave(page);
});

test("names, messages, results, state and errors full of markup run no script", async () => {
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
  await sound(page, "a hostile run");
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
