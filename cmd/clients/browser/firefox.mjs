// The console of Baton at BATON_URL in the Firefox at FIREFOX. Firefox does not support the media features that newer versions of
// playwright-core set in each page, so that this script has its own version.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { firefox } from "firefox-driver";
import { call, did, start } from "./console-page.mjs";

const { BATON_URL: base, FIREFOX: executablePath } = process.env;

let browser;
before(async () => (browser = await firefox.launch({ channel: "moz-firefox", executablePath, timeout: 600_000 })));
after(() => browser?.close());

test("every page of the console works in Firefox", async () => {
  const run = await did({ agent: "echo", content: "a word from before", threadId: "old" });
  const live = await start({ do: [{ tokens: 100_000, delayMs: 20 }], threadId: "live" });
  const page = await browser.newPage();
  page.setDefaultTimeout(600_000);
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error.stack ?? error)));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  await page.goto(base);
  const open = async (path, part, text) => {
    await page.evaluate((path) => history.pushState(null, "", path), path); // as a link does
    await page.locator(part, { hasText: text }).first().waitFor();
    assert.equal(await page.getByText("This page has failed").count(), 0, path);
    assert.deepEqual(complaints, [], path);
  };
  await open("/", "h1", "Overview");
  await open("/runs", ".runs li", "a word from before");
  await open(`/runs/${encodeURIComponent(run.id)}?tab=messages`, ".message-row", "a word from before");
  await open(`/runs/${encodeURIComponent(live.runId)}?tab=messages`, ".messages", /000 001 002/);
  const words = await page.locator(".messages").textContent();
  await page.waitForFunction((words) => document.querySelector(".messages").textContent !== words, words); // it goes on
  await call("POST", `/api/projects/default/agent-runs/${encodeURIComponent(live.runId)}/cancel`);
  await page.locator(".run-head [data-status=CANCELLED]").waitFor();
  await open("/threads/old", ".message-row", "a word from before");
  await open("/playground/new?agent=echo", "h1,h2", "Talk to echo");
  await page.getByRole("textbox", { name: "Message" }).fill("hello from Firefox");
  await page.keyboard.press("Enter");
  await page.locator(".message[data-role=assistant]", { hasText: "hello from Firefox" }).waitFor();
  await open("/agents?tab=tools", ".panel", "calculator");
  await open("/waiting", "h1", "Waiting");
  await open("/admin", "h1", "Admin");
  await page.goto(`${base}/docs`);
  await page.locator(".opblock", { hasText: "/healthz" }).waitFor();
  assert.deepEqual(complaints, []);
});
