// Chromium with the pages of Baton at BATON_URL: the API documentation and the monitor.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { launch } from "./launch.mjs";

const { BATON_URL: base } = process.env;

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

// open opens a page of Baton, and records its requests and complaints.
const open = async (path) => {
  const page = await browser.newPage();
  page.setDefaultTimeout(600_000);
  const asked = [];
  const complaints = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("requestfailed", (request) => complaints.push(`${request.url()}: ${request.failure()?.errorText}`));
  page.on("response", (response) => response.status() >= 400 && complaints.push(`${response.url()}: ${response.status()}`));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective}: ${e.blockedURI}`));
  });
  await page.goto(base + path);
  return { page, asked, complaints };
};

// called returns how often functions of a name were called while act ran.
const called = async (page, name, act) => {
  const session = await page.context().newCDPSession(page);
  await session.send("Profiler.enable");
  await session.send("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await act();
  const { result } = await session.send("Profiler.takePreciseCoverage");
  await session.detach();
  return result.flatMap((script) => script.functions).filter((f) => f.functionName === name).reduce((n, f) => n + f.ranges[0].count, 0);
};

test("the page of the API shows every operation and tries one out", async () => {
  const { page, asked, complaints } = await open("/docs");
  await page.waitForSelector(".opblock");
  const { paths } = await (await fetch(base + "/openapi.json")).json();
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item)
      .filter((method) => ["get", "post", "put", "patch", "delete"].includes(method))
      .map((method) => `${method} ${path}`),
  );
  const shown = await page.$$eval(".opblock", (blocks) =>
    blocks.map((block) => {
      const path = block.querySelector("[data-path]").dataset.path;
      return `${block.querySelector(".opblock-summary-method").textContent.toLowerCase()} ${path}`;
    }),
  );
  assert.deepEqual(shown.sort(), operations.sort());

  const health = page.locator(".opblock", { has: page.locator('[data-path="/healthz"]') });
  await health.locator(".opblock-summary-control").click();
  await health.getByRole("button", { name: "Try it out", exact: true }).click();
  await health.getByRole("button", { name: "Execute", exact: true }).click();
  const answer = health.locator(".live-responses-table .response");
  await answer.waitFor();
  assert.equal((await answer.locator(".response-col_status").textContent()).trim().slice(0, 3), "200");

  const runs = page.locator(".opblock", { has: page.locator('[data-path="/api/projects/{projectId}/agent-runs"]') }).first();
  const parses = await called(page, "resolveSubtree", async () => {
    await runs.locator(".opblock-summary-control").click();
    await runs.getByText("nextCursor").first().waitFor();
  });
  assert.equal(parses, 0, "opening an operation parses the whole document");
  await runs.getByRole("tab", { name: "Schema", exact: true }).first().click();
  await runs.getByRole("button", { name: "Expand all", exact: true }).first().click();
  await runs.locator(".json-schema-2020-12").getByText("inputQuery").first().waitFor(); // of a referenced schema
  await runs.getByRole("button", { name: "Try it out", exact: true }).click();
  await runs.getByPlaceholder("projectId").fill("default");
  await runs.getByPlaceholder("limit").fill("3");
  await runs.getByRole("button", { name: "Execute", exact: true }).click();
  await runs.locator(".live-responses-table .response").waitFor();
  assert.ok(asked.some((url) => url.startsWith(`${base}/api/projects/default/agent-runs?limit=3`)), asked.join("\n"));

  assert.deepEqual(await page.evaluate(() => window.violations), []);
  assert.deepEqual(complaints, []);
  assert.ok(asked.includes(base + "/healthz"));
  const elsewhere = asked.filter((url) => !url.startsWith(base + "/") && !url.startsWith("data:"));
  assert.deepEqual(elsewhere, []);
  await page.close();
});

test("EventSource keeps the monitor's picture of the agents", async () => {
  const { page, complaints } = await open("/docs");
  await page.evaluate(() => {
    const seen = (window.seen = { states: [], types: [], agents: null });
    const source = new EventSource("/api/v1/agui/events");
    const listen = (type, then) =>
      source.addEventListener(type, ({ data }) => {
        const event = JSON.parse(data);
        seen.types.push(event.type);
        then?.(event);
      });
    listen("STATE_SNAPSHOT", ({ snapshot }) => (seen.agents = snapshot.agents));
    listen("STATE_DELTA", ({ delta }) => {
      for (const { op, path, value } of delta) {
        const keys = path.split("/").slice(1);
        const last = keys.pop();
        const at = keys.reduce((value, key) => value[key], { agents: seen.agents });
        if (op !== "replace" || !(last in at)) throw new Error(`${op} ${path}`);
        at[last] = value;
      }
      seen.states.push(seen.agents.find(({ name }) => name === "scripted").status);
    });
    for (const type of ["RUN_STARTED", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_RESULT", "RUN_FINISHED", "RUN_ERROR"]) listen(type);
  });
  await page.waitForFunction(() => seen.agents);
  assert.ok((await page.evaluate(() => seen.agents)).every(({ status }) => status === "idle"));
  await page.evaluate(async () => {
    for (const then of [{ say: "done" }, { fail: "boom" }]) {
      const content = JSON.stringify({ do: [{ say: "hello" }, { tool: "clock" }, then] });
      const headers = { "Content-Type": "application/json", Accept: "text/event-stream" };
      await (await fetch("/api/v1/agent/runs", { method: "POST", headers, body: JSON.stringify({ agent: "scripted", content }) })).text();
    }
  });
  await page.waitForFunction(() => seen.types.includes("RUN_ERROR") && seen.states.length >= 4);
  const { states, types, agents } = await page.evaluate(() => seen);
  assert.deepEqual(states, ["running", "idle", "running", "idle"]);
  for (const type of ["RUN_STARTED", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_RESULT", "RUN_FINISHED"]) {
    assert.ok(types.includes(type), `there is a ${type}`);
  }
  assert.equal(types.filter((type) => type === "STATE_SNAPSHOT").length, 1);
  assert.ok(agents.every(({ status }) => status === "idle"));
  assert.deepEqual(complaints, []);
  await page.close();
});
