// What tests of the console share: pages as a person has them, and what must hold of each whatever is done there.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { launch } from "./launch.mjs";

const { BATON_URL: base } = process.env;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Each page is looked at like this.
export const looks = [
  { width: 1440, height: 900, theme: "light" },
  { width: 390, height: 844, theme: "dark" },
  { width: 1440, height: 900, theme: "dark" },
  { width: 390, height: 844, theme: "light" },
];

export const browse = launch;

// visit opens a page of the console, and notes what it asks and what it complains about.
export async function visit(browser, path, { width, height, theme } = looks[0], { credential = "" } = {}) {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: theme, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"],
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const asked = [];
  const complaints = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("pageerror", (error) => complaints.push(String(error.stack ?? error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("response", (response) => {
    if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
  });
  await page.addInitScript((credential) => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective}: ${e.blockedURI}`));
    if (credential) sessionStorage.setItem("baton.credential", credential);
  }, credential);
  await page.goto(base + path);
  return Object.assign(page, { asked, complaints, width });
}

// sound holds of every page at any time: it can be used by everybody, fits its width, asks nobody else, and has no complaint.
export async function sound(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => `${n.html.slice(0, 160)} (${n.failureSummary?.slice(0, 240)})`).join("; ")}`);
  });
  assert.deepEqual(found, [], `${what}: accessibility`);
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(sideways <= 0, `${what} is ${sideways} px wider than its window`);
  await quiet(page, what);
}

// quiet is what sound says of complaints alone.
export async function quiet(page, what) {
  assert.deepEqual(page.complaints, [], `${what}: complaints`);
  assert.deepEqual(await page.evaluate(() => window.violations), [], `${what}: violations of the policy`);
  const elsewhere = page.asked.filter((url) => !url.startsWith(base + "/") && !/^(data|blob):/.test(url));
  assert.deepEqual(elsewhere, [], `${what}: other servers`);
}

export async function leave(page) {
  await page.context().close();
}

// call asks the API.
export async function call(method, path, body, headers = {}) {
  const response = await fetch(base + path, {
    method,
    headers: { ...(body ? { "Content-Type": "application/json" } : {}), ...headers },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

// start starts a run, of the scripted agent if a script is given.
export const start = (body) =>
  call("POST", "/api/v1/agent/runs", body.do ? { agent: "scripted", content: JSON.stringify({ do: body.do }), threadId: body.threadId } : body);

const runs = "/api/projects/default/agent-runs";

// ended waits until a run has that status.
export async function ended(runId, status = "COMPLETED") {
  for (;;) {
    const run = await call("GET", `${runs}/${encodeURIComponent(runId)}`);
    if (run.status === status) return run;
    assert.ok(!["COMPLETED", "FAILED", "CANCELLED"].includes(run.status), `the run is ${run.status}: ${JSON.stringify(run.error)}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

// did starts a run and waits for its end.
export async function did(body, status) {
  const { runId } = await start(body);
  return ended(runId, status);
}

// logged is a run's log as the server has it.
export async function logged(run) {
  const path = `/api/v1/conversations/${encodeURIComponent(run.conversationId)}/agent-runs/${encodeURIComponent(run.id)}/events?projection=seed&limit=500`;
  const all = [];
  for (let after = ""; ; ) {
    const page = await call("GET", path + after);
    all.push(...page.data);
    if (page.page_info.next === null) return all;
    after = `&after_event_id=${page.page_info.next}`;
  }
}
