// Filters in the console of Baton at BATON_URL: the figures by time, the runs by several properties, and the window with the size of a
// phone, in the dark theme.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, call, did, ended, leave, looks, quiet, sound, start, visit } from "./console-page.mjs";

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

const runs = "/api/projects/default/agent-runs";

// lists waits until a page lists the runs.
async function lists(page, expected, what) {
  await page.waitForFunction(
    (ids) => {
      const shown = [...document.querySelectorAll(".runs li a")].map((a) => decodeURIComponent(a.getAttribute("href").split("?")[0].split("/").at(-1)));
      return shown.join() === ids || (ids === "" && document.querySelector(".empty") !== null);
    },
    expected.map((r) => r.id).join(),
  ).catch((error) => assert.fail(`${what}: ${error}`));
}

test("the figures belong to the chosen window", async () => {
  await did({ agent: "echo", content: "one that is counted" });
  await did({ do: [{ fail: "no", code: "counted" }] }, "FAILED");
  const page = await visit(browser, "/");
  for (const [name, window] of [["Day", "day"], ["Week", "week"], ["Hour", "hour"]]) {
    await page.getByRole("group", { name: "Time window" }).getByRole("button", { name, exact: true }).click();
    await page.getByRole("button", { name, exact: true, pressed: true }).waitFor();
    await page.waitForFunction(() => document.querySelector(".figures-and-charts")?.dataset.stale === "false");
    const { totals, agents, failures } = await call("GET", `/api/projects/default/stats?window=${window}`);
    const figure = (which) => page.locator(".figures > div", { has: page.getByText(which, { exact: true }) }).locator("dd").first();
    assert.equal(await figure("Started").textContent(), String(totals.started), window);
    assert.equal(await figure("Failed").textContent(), String(totals.failed), window);
    for (const { agent, runs } of agents) await page.getByRole("row", { name: new RegExp(`^${agent} ${runs} `) }).waitFor();
    for (const { code, count } of failures) assert.match(await page.locator(".meters li", { hasText: code }).textContent(), new RegExp(`${count}$`));
    assert.equal(await page.getByRole("img", { name: new RegExp(`${totals.completed} completed, ${totals.failed} failed`) }).count(), 1);
  }
  await quiet(page, "the windows of the overview");
  await leave(page);
});

test("runs are filtered by agent, workflow, time and thread, in the address", async () => {
  await Promise.all([
    did({ agent: "echo", content: "narrow one", threadId: "narrow" }),
    did({ do: [{ say: "narrow two" }], threadId: "narrow too" }),
    did({ workflowId: "demo", content: "narrow three" }),
  ]);
  const page = await visit(browser, "/runs?q=narrow");
  const some = async (query) => (await call("GET", `${runs}?q=narrow&limit=50${query}`)).items;
  await lists(page, await some(""), "all");
  const which = page.getByLabel("Agent or workflow");
  for (const [value, query] of [["a:echo", "&agent=echo"], ["a:scripted", "&agent=scripted"], ["w:demo", "&workflowId=demo"]]) {
    await which.selectOption(value);
    const expected = await some(query);
    assert.equal(expected.length, 1);
    await lists(page, expected, value);
    await page.reload();
    await lists(page, expected, `${value}, loaded again`);
  }
  await which.selectOption("");
  for (const time of ["15m", "1h", "24h", "7d"]) {
    await page.getByLabel("Time").selectOption(time);
    await page.waitForURL(`**since=${time}*`);
    await lists(page, await some(""), time);
  }
  await page.getByLabel("Time").selectOption("");
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByLabel("Until").fill("2020-01-01T00:00");
  await lists(page, [], "until then");
  await page.getByLabel("Until").fill("");
  await page.getByLabel("Thread", { exact: true }).fill("narrow");
  const [one] = await some("&threadId=narrow");
  await lists(page, [one], "a thread");
  await sound(page, "runs that are narrowed");
  await page.getByRole("button", { name: "Clear", exact: true }).click();
  await page.waitForURL("**/runs");
  await quiet(page, "runs that are narrowed");
  await leave(page);
});

test("a filter that was typed does not come back after Clear, however busy the browser is", async () => {
  const page = await visit(browser, "/runs", looks[0], { apart: true });
  await page.addInitScript(() => {
    const { setTimeout } = window;
    window.setTimeout = (run, after, ...rest) => (after === 300 ? (queueMicrotask(run), 0) : setTimeout(run, after, ...rest));
  });
  await page.goto(new URL("/runs", page.url()).href);
  for (let i = 0; i < 5; i++) {
    await page.getByLabel("Text").fill(`nothing ${i}`);
    await page.waitForURL("**/runs?q=*");
    await page.getByRole("button", { name: "Clear", exact: true }).click();
    await page.getByRole("button", { name: "Clear", exact: true }).waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("Text").inputValue(), "");
    assert.equal(new URL(page.url()).search, "");
  }
  await leave(page);
});

test("navigation, answers, reruns and cancels work on a phone with the dark theme", async () => {
  const ask = { message: "Which size?", schema: { type: "object", required: ["size"], properties: { size: { type: "string", title: "Size", enum: ["S", "L"] } } } };
  const { runId } = await start({ do: [{ ask }, { say: "thank you" }], threadId: "telephone" });
  await ended(runId, "WAITING");
  const page = await visit(browser, "/", looks[1], { apart: true });
  const menu = page.getByRole("button", { name: "Menu", exact: true });
  const ink = () => page.evaluate(() => getComputedStyle(document.body).color);
  await menu.click();
  await sound(page, "the menu of a telephone");
  const dark = await ink();
  await page.getByRole("button", { name: "Light theme", exact: true }).click();
  await page.getByRole("button", { name: "Light theme", pressed: true }).waitFor();
  const light = await ink();
  assert.notEqual(light, dark);
  await page.reload();
  assert.equal(await ink(), light, "the theme is forgotten");
  await menu.click();
  await page.getByRole("button", { name: "Dark theme", exact: true }).click();
  assert.equal(await ink(), dark);
  await page.getByRole("button", { name: "System theme", exact: true }).click();
  await page.emulateMedia({ colorScheme: "light" });
  assert.equal(await ink(), light);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.getByRole("link", { name: /^Waiting/ }).click();
  await page.waitForURL("**/waiting");
  assert.equal(await page.locator(".nav").getAttribute("data-open"), "false");
  const asked = page.locator(".waits", { hasText: "Which size?" });
  await asked.getByLabel("Size").selectOption("L");
  await asked.getByRole("button", { name: "Answer", exact: true }).click();
  await ended(runId);
  await asked.waitFor({ state: "detached" });
  await page.goto(new URL(`/runs/${runId}?tab=messages`, page.url()).href);
  await page.getByText("thank you", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Run again", exact: true }).click();
  await sound(page, "run again, on a telephone");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL((url) => !url.href.includes(runId));
  await page.getByRole("heading", { name: "Which size?", exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.locator(".run-head [data-status=CANCELLED]").waitFor();
  await sound(page, "a run that was cancelled, on a telephone");
  await leave(page);
});

test("the playground edits a thread's state, and regenerates an answer", async () => {
  await did({ do: [{ state: { colour: "red", count: 1 } }, { say: "set" }], threadId: "edited state" });
  const page = await visit(browser, `/playground/${encodeURIComponent("edited state")}?agent=echo`);
  await page.locator(".side .tree").getByText('"red"').waitFor();
  await page.locator(".side").getByRole("button", { name: "Edit", exact: true }).click();
  const editor = page.locator(".side .cm-content");
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type('{"colour":"blue","id":12345678901234567890}');
  await editor.getByText("12345678901234567890}").waitFor();
  await page.getByText("The next message replaces the thread’s state with it.").waitFor();
  await page.getByRole("textbox", { name: "Message" }).fill("with a state");
  await page.keyboard.press("Enter");
  await page.locator(".message[data-role=assistant]", { hasText: "with a state" }).waitFor();
  await page.locator(".side .tree").getByText('"blue"').waitFor();
  await page.locator(".side .tree").getByText("12345678901234567890", { exact: true }).waitFor();
  const text = await (await fetch(`${process.env.BATON_URL}/api/v1/threads/edited%20state/messages`)).text();
  assert.match(text, /"id":12345678901234567890\b/);

  const before = (await call("GET", "/api/v1/threads/edited%20state/messages")).messages;
  await page.locator(".message[data-role=user]", { hasText: "with a state" }).hover();
  await page.locator(".message[data-role=user]", { hasText: "with a state" }).getByRole("button", { name: "Another answer", exact: true }).click();
  let now = before;
  while (now.length !== before.length || now.at(-1).id === before.at(-1).id) now = (await call("GET", "/api/v1/threads/edited%20state/messages")).messages;
  assert.deepEqual(now.map((m) => m.content), before.map((m) => m.content));
  await page.locator(".outcome [data-status=COMPLETED]").waitFor();
  await page.waitForFunction((n) => document.querySelectorAll(".conversation .message").length === n, before.length);
  await sound(page, "a state that was edited");
  await leave(page);
});
