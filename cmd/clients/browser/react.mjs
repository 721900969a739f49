// Chromium with the page of the React example, at PAGE.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { launch } from "./launch.mjs";

let browser, page;
const complaints = [];
before(async () => {
  browser = await launch();
  page = await browser.newPage();
  page.setDefaultTimeout(600_000);
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(`${process.env.PAGE}/?agent=scripted`);
});
after(() => browser.close());

// say sends a script to the agent.
async function say(...steps) {
  await page.getByLabel("Message").fill(JSON.stringify({ do: steps }));
  await page.getByRole("button", { name: "Send", exact: true }).click();
}

test("an agent streams, calls a tool and is answered", async () => {
  await say({ say: "One moment." }, { tool: "calculator", args: { expression: "6*7" } }, { ask: { message: "Deploy?" } }, { say: "Done." });
  await page.getByText("Deploy?", { exact: true }).waitFor();
  await page.getByText("→ 42").waitFor();
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByText("Done.", { exact: true }).waitFor();
  assert.equal(await page.getByText("One moment.", { exact: true }).count(), 1);
});

test("Stop stops it, and the conversation goes on", async () => {
  await say({ say: "Wait" }, { tokens: 10000, delayMs: 20 });
  await page.getByText("Wait", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("button", { name: "Send", exact: true }).waitFor();
  await say({ say: "Here again." });
  await page.getByText("Here again.", { exact: true }).waitFor();
});

test("nothing was wrong on the page", () => assert.deepEqual(complaints, []));
