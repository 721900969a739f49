// Chromium with chat pages, which PAGE serves, and Baton at BATON_URL.
import { after, before } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { launch } from "../browser/launch.mjs";
import { until } from "../until.mjs";
import { bundle } from "./build.mjs";

export const { BATON_URL: base, PAGE: page, SCREENSHOTS } = process.env;

let browser, window, server;
before(async () => {
  const bundled = bundle("assistant.jsx", "copilot1.jsx", "copilot2.jsx");
  browser = await launch();
  window = await browser.newContext({ viewport: { width: 900, height: 900 } });
  await window.route(
    (url) => ![base, page].includes(url.origin),
    (route) => route.abort(), // resources of other hosts, which are optional
  );
  const files = await bundled;
  server = createServer(({ url }, response) => {
    const path = new URL(url, page).pathname;
    const type = path.endsWith(".js") ? "text/javascript" : path.endsWith(".css") ? "text/css" : "text/html";
    response.writeHead(200, { "Content-Type": type, "Cache-Control": "max-age=3600" }).end(files.get(path) ?? html(path.slice(1), files));
  });
  await new Promise((listens) => server.listen(new URL(page).port, "127.0.0.1", listens));
});
after(async () => {
  await browser.close();
  server.close();
});

const html = (name, files) => `<!doctype html>
<meta charset="utf-8">
<title>${name}</title>
${files.has(`/${name}.css`) ? `<link rel="stylesheet" href="/${name}.css">` : ""}
<div id="app"></div>
<script type="module" src="/${name}.js"></script>`;

// open opens a chat page on a thread, a new one if none is named.
export const open = async (name, { thread = randomUUID(), agent = "scripted" } = {}) => visit(await window.newPage(), name, thread, agent);

const visit = async (tab, name, thread, agent) => {
  tab.setDefaultTimeout(600_000);
  const complaints = [];
  tab.on("pageerror", (error) => complaints.push(String(error)));
  tab.on("console", (message) => message.type() === "error" && message.location().url.startsWith(page) && complaints.push(message.text()));
  const connects = new Map(); // of the loaded document, with whether they have ended
  const ends = (request) => connects.has(request) && connects.set(request, true);
  tab.on("framenavigated", () => connects.clear());
  tab.on("request", (request) => request.url().endsWith("/connect") && connects.set(request, false));
  tab.on("requestfinished", ends);
  tab.on("requestfailed", ends);
  await tab.goto(`${page}/${name}?thread=${thread}&agent=${agent}&baton=${encodeURIComponent(base)}`);
  const chat = {
    page: tab,
    thread,
    complaints,
    // connected says whether the page has connected to the thread and read all that it was answered.
    connected: () => connects.size > 0 && [...connects.values()].every(Boolean),
    // Another tab with the same chat.
    tab: async () => visit(await window.newPage(), name, thread, agent),
    texts: (selector) => tab.locator(selector).allInnerTexts(),
    // shows waits until the page shows exactly the lines.
    shows: async (selector, want) => {
      let got;
      await until(`shows ${JSON.stringify(want)} as ${selector}`, async () => {
        got = (await tab.locator(selector).allInnerTexts()).map((text) => text.trim()).filter(Boolean);
        return JSON.stringify(got) === JSON.stringify(want);
      }).catch((error) => assert.fail(`${error.message}, but ${JSON.stringify(got)}; ${complaints}`));
    },
    shoot: async (name) => {
      if (!SCREENSHOTS) return;
      mkdirSync(SCREENSHOTS, { recursive: true });
      await tab.screenshot({ path: `${SCREENSHOTS}/${name}.png` });
    },
    // close closes the page, and fails on complaints other than expected ones.
    close: async (wrong) => {
      await tab.close();
      assert.deepEqual(
        complaints.filter((complaint) => !wrong || !complaint.includes(wrong)),
        [],
      );
    },
  };
  return chat;
};

export const script = (...ops) => JSON.stringify({ do: ops });

// told returns the thread's messages as a new viewer sees them.
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
