// Usage and budgets on the overview of Baton at BATON_URL, whose agent thinker has a model with prices and budgets, and an operator's answer.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, call, did, ended, leave, quiet, soundInEachLook, visit } from "./console-page.mjs";

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

test("the overview shows usage and budgets, and an operator raises one", async () => {
  await did({ agent: "thinker", content: "6*7" });
  const waits = await did({ agent: "thinker", content: "once more" }, "WAITING");
  const page = await visit(browser, "/");
  page.setDefaultTimeout(60_000);
  const usage = page.locator(".panel", { has: page.getByRole("heading", { name: "Usage today" }) });
  const row = async () => usage.locator("tbody tr").allInnerTexts();
  const [sum] = (await call("GET", "/api/projects/default/usage?by=model")).items;
  assert.equal(sum.calls, 2);
  await page.waitForFunction(() => document.querySelectorAll(".budgets li").length === 2);
  assert.deepEqual((await row()).map((t) => t.split(/\t/)), [["openai · gpt-test", "2", "60", "24", "€0.17"]]);
  await usage.getByRole("button", { name: "Agent" }).click();
  await usage.getByRole("cell", { name: "thinker" }).waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), usage.getByRole("button", { name: "CSV" }).click()]);
  assert.equal(download.suggestedFilename(), "usage.csv");
  const budgets = await page.locator(".budgets li").allInnerTexts();
  assert.match(budgets[0], /^daily project default\s+84 of 80 tokens\s+then asks an operator, resets/);
  assert.match(budgets[1], /^each each run\s+up to €5.00\s+then stops/);
  await soundInEachLook(page, "usage and budgets");
  if (process.env.PICTURES) {
    for (const [name, width, colorScheme] of [["wide", 1280, "light"], ["phone", 390, "dark"]]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      await page.screenshot({ path: `${process.env.PICTURES}/spending-${name}.png`, fullPage: true });
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  }

  await page.goto(new URL("/waiting", page.url()).href);
  await page.getByText('The budget "daily" is used up: 84 of 80 tokens').waitFor();
  const form = page.locator("form", { has: page.getByRole("button", { name: "Answer", exact: true }) });
  await form.getByLabel("Action").selectOption("raise");
  await form.getByLabel("New limit").fill("500");
  if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/spending-question.png`, fullPage: true });
  await form.getByRole("button", { name: "Answer", exact: true }).click();
  await ended(waits.runId ?? waits.id);
  assert.equal((await call("GET", "/api/projects/default/budgets")).items[0].limit, 500);
  await quiet(page, "usage and budgets");
  await leave(page);
});
