// Chromium with pages that esbuild has bundled, served as if Baton at BATON_URL did.
import { after, before } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { launch } from "../browser/launch.mjs";
import { until } from "../until.mjs";
import { bundle } from "./build.mjs";

export const base = process.env.BATON_URL;

let browser, files;
before(async () => ([browser, files] = await Promise.all([launch(), bundle("assistant.jsx")])));
after(() => browser.close());

// open opens a page of a chat on a thread, a new one if none is named, in a window of its own.
export const open = async (name, { thread = randomUUID(), agent = "scripted" } = {}) => {
  const window = await browser.newContext({ viewport: { width: 900, height: 900 } });
  await window.route(base + "/page/**", (route) => {
    const path = new URL(route.request().url()).pathname.slice("/page".length);
    if (files.has(path)) return route.fulfill({ body: files.get(path), contentType: path.endsWith(".css") ? "text/css" : "text/javascript" });
    const style = files.has(`/${name}.css`) ? `<link rel="stylesheet" href="/page/${name}.css">` : "";
    return route.fulfill({
      contentType: "text/html",
      body: `<!doctype html><meta charset="utf-8"><title>${name}</title>${style}<div id="app"></div><script type="module" src="/page/${name}.js"></script>`,
    });
  });
  return visit(await window.newPage(), name, thread, agent);
};

const visit = async (page, name, thread, agent) => {
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  await page.goto(`${base}/page/${name}?thread=${thread}&agent=${agent}`);
  const chat = {
    page,
    thread,
    complaints,
    // Another tab with the same chat.
    tab: async () => visit(await page.context().newPage(), name, thread, agent),
    texts: (selector) => page.locator(selector).allInnerTexts(),
    // shows waits until the page shows just that.
    shows: async (selector, want) => {
      let got;
      await until(`shows ${JSON.stringify(want)} as ${selector}`, async () => {
        got = (await page.locator(selector).allInnerTexts()).map((text) => text.trim()).filter(Boolean);
        return JSON.stringify(got) === JSON.stringify(want);
      }).catch((error) => assert.fail(`${error.message}, but ${JSON.stringify(got)}; ${complaints}`));
    },
    shoot: async (name) => {
      if (!process.env.SCREENSHOTS) return;
      mkdirSync(process.env.SCREENSHOTS, { recursive: true });
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png` });
    },
    close: async () => {
      await page.close();
      assert.deepEqual(complaints, []);
    },
  };
  return chat;
};

export const script = (...ops) => JSON.stringify({ do: ops });

// told is what the thread has, as somebody sees who was not there.
export const told = async (thread) => {
  const response = await fetch(`${base}/api/v1/agui/scripted/connect`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ threadId: thread, messages: [] }),
  });
  const events = (await response.text()).split("\n").filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice(6)));
  const { messages } = events.find(({ type }) => type === "MESSAGES_SNAPSHOT");
  const { snapshot } = events.find(({ type }) => type === "STATE_SNAPSHOT");
  return { messages, state: snapshot };
};

export const runs = async (thread) => {
  const response = await fetch(`${base}/api/projects/default/agent-runs?threadId=${thread}`);
  return (await response.json()).items;
};
