// Shared code of the console's tests: pages, and checks that apply to every page at any time.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { isDeepStrictEqual } from "node:util";
import { launch } from "./launch.mjs";

const { BATON_URL: base } = process.env;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// The window sizes and themes.
export const looks = [
  { width: 1440, height: 900, theme: "light" },
  { width: 390, height: 844, theme: "dark" },
  { width: 1440, height: 900, theme: "dark" },
  { width: 390, height: 844, theme: "light" },
];

// judged returns the looks to check: all in a soak, otherwise both sizes and both themes in alternating combinations. Accessibility is
// checked in the first, as that takes most of the time.
const all = process.env.BATON_SOAK;
let turn = 0;
const judged = () => {
  if (all) return looks;
  const two = turn & 1 ? looks.slice(2) : looks.slice(0, 2);
  return turn++ & 2 ? two.reverse() : two;
};

export const browse = launch;

// Pages are tabs of one browser, which loads the console's files once. A page with another page beside it, or with a fake clock, needs its own window, because a window draws only one tab.
async function opened(browser, apart) {
  const [context] = apart ? [] : browser.contexts().filter((c) => c.shared);
  if (context) return context.newPage();
  const own = await browser.newContext({ reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"] });
  return Object.assign(own, { shared: !apart }).newPage();
}

// visit opens a page of the console, and records its requests and complaints.
export async function visit(browser, path, { width, height, theme } = looks[0], { credential = "", apart = false } = {}) {
  const page = await opened(browser, apart);
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: theme });
  page.setDefaultTimeout(600_000);
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
  return Object.assign(page, { asked, complaints });
}

// sound checks that a page is accessible, fits its width, is readable, contacts no other host, and has no complaints. Elements below an open
// dialog are not accessible.
export async function sound(page, what) {
  await accessible(page, what);
  await legible(page, what);
}

async function accessible(page, what) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document.querySelector("dialog[open]") ?? document, { resultTypes: ["violations"] });
    return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => `${n.html.slice(0, 160)} (${n.failureSummary?.slice(0, 240)})`).join("; ")}`);
  });
  assert.deepEqual(found, [], `${what}: accessibility`);
}

async function legible(page, what) {
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(sideways <= 0, `${what} is ${sideways} px wider than its window`);
  const tiny = await page.evaluate(() =>
    [...document.body.querySelectorAll("*")]
      .filter((e) => parseFloat(getComputedStyle(e).fontSize) < 11 && [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()))
      .map((e) => e.outerHTML.slice(0, 120)),
  );
  assert.deepEqual(tiny, [], `${what}: letters that are too small to read`);
  const moving = await page.evaluate(() => document.getAnimations().filter((a) => a.playState === "running" && a.effect.getComputedTiming().duration > 1).map((a) => a.animationName ?? a.transitionProperty));
  assert.deepEqual(moving, [], `${what}: moves, although the person wants no motion`);
  await quiet(page, what);
}

// quiet checks only for complaints.
export async function quiet(page, what) {
  assert.deepEqual(page.complaints, [], `${what}: complaints`);
  assert.deepEqual(await page.evaluate(() => window.violations), [], `${what}: violations of the policy`);
  const elsewhere = page.asked.filter((url) => !url.startsWith(base + "/") && !/^(data|blob):/.test(url));
  assert.deepEqual(elsewhere, [], `${what}: other servers`);
}

// soundInEachLook runs sound at every size and in every theme, on the same page.
export async function soundInEachLook(page, what) {
  for (const [i, { width, height, theme }] of judged().entries()) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: theme });
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const look = `${what} at ${width} px, ${theme}`;
    if (all || i === 0) await accessible(page, look);
    await legible(page, look);
  }
  await page.setViewportSize(looks[0]);
  await page.emulateMedia({ colorScheme: looks[0].theme });
}

// soundInEachTheme runs sound in every theme at the page's size.
export async function soundInEachTheme(page, what) {
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await sound(page, `${what}, ${colorScheme}`);
  }
}

export async function leave(page) {
  const context = page.context();
  await (context.shared ? page : context).close();
}

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

// start starts a run, of the agent scripted if a script is given.
export const start = (body) =>
  call("POST", "/api/v1/agent/runs", body.do ? { agent: "scripted", content: JSON.stringify({ do: body.do }), threadId: body.threadId } : body);

const runs = "/api/projects/default/agent-runs";

// ended waits until a run has a status.
export async function ended(runId, status = "COMPLETED") {
  for (;;) {
    const run = await call("GET", `${runs}/${encodeURIComponent(runId)}`);
    if (run.status === status) return run;
    assert.ok(!["COMPLETED", "FAILED", "CANCELLED"].includes(run.status), `the run is ${run.status}: ${JSON.stringify(run.error)}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

export async function did(body, status) {
  const { runId } = await start(body);
  return ended(runId, status);
}

// logged returns a run's log from the server, with the headers.
export async function logged(run, headers) {
  const path = `/api/v1/conversations/${encodeURIComponent(run.conversationId)}/agent-runs/${encodeURIComponent(run.id)}/events?projection=seed&limit=500`;
  const all = [];
  for (let after = ""; ; ) {
    const page = await call("GET", path + after, undefined, headers);
    all.push(...page.data);
    if (page.page_info.next === null) return all;
    after = `&after_event_id=${page.page_info.next}`;
  }
}

// becomes waits until read returns the wanted value.
export async function becomes(read, want, what) {
  for (const end = Date.now() + 600_000; ; await new Promise((done) => setTimeout(done, 20))) {
    const got = await read();
    if (isDeepStrictEqual(got, want)) return;
    if (Date.now() > end) assert.deepEqual(got, want, what);
  }
}

// tab selects a tab of a page.
export const tab = (page, name) => page.getByRole("tab", { name: new RegExp(`^${name}`) }).click();

// untilShown scrolls a list up and down until it shows a row. A list that still loads or measures its rows grows under the reader, and may
// take a row out of the page again.
export const untilShown = async (list, row) => {
  for (const end = Date.now() + 600_000; !(await row.first().isVisible()); ) {
    assert.ok(Date.now() < end, `${row} is not shown`);
    await list.evaluate(
      (e) =>
        new Promise((done) =>
          requestAnimationFrame(() => done(e.scrollTop <= 0 ? e.scrollTo(0, e.scrollHeight) : e.scrollBy(0, -e.clientHeight / 2))),
        ),
    );
  }
};

// shown returns the ids of all events in the page, in their order.
export const shown = async (page) => {
  const rows = page.getByRole("region", { name: "Events", exact: true });
  await rows.waitFor();
  await page.getByLabel("Fold texts").uncheck();
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
