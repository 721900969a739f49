// The console with accounts. KEYS has API keys of Baton at BATON_URL by name: alice and bob are users of p1, vera is its viewer,
// oscar its operator and adam its admin; nell is a user of p2.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { becomes, browse, call, leave, logged, looks, quiet, sound, soundInEachLook, visit } from "./console-page.mjs";

const keys = JSON.parse(process.env.KEYS);

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

const as = (name) => ({ Authorization: `Bearer ${keys[name]}` });

const begin = (name, body) => call("POST", "/api/v1/agent/runs", body, as(name));

const script = (...list) => JSON.stringify({ do: list });

// A page without a credential causes one complaint about 401.
const refused = /401/;

test("sign-in with a key and sign-out; the key is in no address", async () => {
  const page = await visit(browser, "/runs");
  await page.getByRole("heading", { name: "Sign in", exact: true }).waitFor();
  page.complaints = [];
  await soundInEachLook(page, "signing in");
  await page.getByLabel("Key or token").fill("baton_wrong");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("alert").getByText("was it copied whole?").waitFor();
  await page.waitForLoadState("networkidle");
  await page.getByRole("alert").getByText("was it copied whole?").waitFor(); // also after what is asked without a key
  await page.getByLabel("Key or token").fill(keys.alice);
  await page.getByLabel("Sign in for all tabs of this browser").check();
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Runs", exact: true }).waitFor();
  await page.getByText("alice · user").waitFor();
  const second = await visit(browser, "/runs");
  await second.getByText("alice · user").waitFor();
  await leave(second);
  await page.reload();
  await page.getByRole("heading", { name: "Runs", exact: true }).waitFor();
  assert.equal(await page.getByLabel("User", { exact: true }).count(), 0);
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.getByRole("heading", { name: "Sign in", exact: true }).waitFor();
  assert.ok(page.asked.every((url) => !url.includes(keys.alice)));
  assert.deepEqual(page.complaints.filter((c) => !refused.test(c)), []);
  await leave(page);
});

test("a ticket opens the stream of a run", async () => {
  const { runId } = await begin("alice", { agent: "scripted", content: script({ tokens: 300, delayMs: 10 }, { say: "the end" }) });
  const page = await visit(browser, `/runs/${runId}?tab=messages`, looks[0], { credential: keys.alice });
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await page.getByText("the end", { exact: true }).waitFor();
  assert.ok(page.asked.some((url) => url.endsWith("/api/v1/stream-tickets?projectId=p1")), "no ticket was asked for");
  await sound(page, "a run with accounts");
  await leave(page);
});

test("an open page reports that its key was revoked, and accepts another one", async () => {
  const made = await call("POST", "/api/projects/p1/keys", { user: "alice", role: "user", name: "brief" }, as("adam"));
  const { runId } = await begin("alice", { agent: "scripted", content: script({ say: "before" }, { ask: { message: "still there?" } }) });
  const page = await visit(browser, `/runs/${runId}`, looks[0], { credential: made.key });
  await page.getByRole("heading", { name: "still there?", exact: true }).waitFor();
  await call("DELETE", `/api/projects/p1/keys/${made.id}`, undefined, as("adam"));
  await page.getByRole("alert").filter({ hasText: "was revoked or has expired" }).waitFor();
  assert.equal(await page.getByText("still there?").count(), 0);
  page.complaints = page.complaints.filter((c) => !refused.test(c));
  await soundInEachLook(page, "a key that is no longer good");
  await page.getByLabel("Key or token").fill(keys.alice);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "still there?", exact: true }).waitFor();
  await leave(page);
});

test("each role sees only its data and its actions", async () => {
  const secret = await begin("alice", { agent: "scripted", content: script({ say: "a secret" }, { ask: { message: "alice?" } }) });
  const own = await visit(browser, `/runs/${secret.runId}`, looks[0], { credential: keys.alice });
  await own.getByRole("heading", { name: "alice?", exact: true }).waitFor();
  await leave(own);
  for (const name of ["bob", "nell"]) {
    const page = await visit(browser, "/", looks[0], { credential: keys[name] });
    await page.getByText("Nothing waits.").waitFor();
    await page.goto(new URL("/runs", page.url()).href);
    await page.getByText("No runs yet").waitFor();
    await page.goto(new URL(`/runs/${secret.runId}`, page.url()).href);
    await page.getByText("Run not found").waitFor();
    assert.ok(!(await page.content()).includes("a secret"));
    await leave(page);
  }
  const page = await visit(browser, "/runs", looks[0], { credential: keys.vera });
  await page.getByRole("link", { name: /a secret/ }).click();
  await page.getByText("alice?").first().waitFor();
  await page.getByRole("button", { name: "Run again", exact: true }).waitFor();
  for (const name of ["Cancel", "Say something", "Answer", "Delete"]) {
    assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  }
  await soundInEachLook(page, "another's run");
  await page.goto(new URL("/", page.url()).href);
  await page.getByRole("link", { name: "alice?" }).waitFor();
  await quiet(page, "the overview of who looks after a project");
  await leave(page);
});

// The actions on alice's data that the console shows to her and to a viewer, an operator and an admin.
const shown = {
  alice: {
    open: ["Cancel", "Say something", "Run again", "curl", "Download"], asked: ["Answer", "Do not answer"], over: ["Say more", "Run again", "curl", "Download", "Delete"],
    thread: ["Open in the playground", "Markdown", "Rename", "Archive", "Delete"], picked: ["Cancel 1", "Delete 1", "Compare"], tools: 0, admin: ["You", "Limits"],
  },
  vera: { open: ["Run again", "curl", "Download"], asked: [], over: ["Run again", "curl", "Download"], thread: ["Markdown"], picked: ["Compare"], tools: 0, admin: ["You", "Limits", "Retention"] },
  oscar: {
    open: ["Cancel", "Say something", "Run again", "curl", "Download"], asked: ["Answer", "Do not answer"], over: ["Say more", "Run again", "curl", "Download"],
    thread: ["Markdown", "Rename", "Archive"], picked: ["Cancel 1", "Compare"], tools: 1, admin: ["You", "Limits", "Retention"],
  },
  adam: {
    open: ["Cancel", "Say something", "Run again", "curl", "Download"], asked: ["Answer", "Do not answer"], over: ["Say more", "Run again", "curl", "Download", "Delete"],
    thread: ["Markdown", "Rename", "Archive", "Delete"], picked: ["Cancel 1", "Delete 1", "Compare"], tools: 1, admin: ["You", "Limits", "Retention", "Servers", "Keys", "Audit"],
  },
};

// keysOf returns the actions on a run in the page's list of keyboard shortcuts.
async function keysOf(page) {
  await page.keyboard.press("?");
  const dialog = page.getByRole("dialog", { name: "Keys", exact: true });
  const does = await dialog.locator("section", { hasText: "Run actions" }).locator("dd").allTextContents();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  return does;
}

const does = { Cancel: "cancel it", "Say something": "append a message", "Say more": "append a message", "Run again": "run it again", curl: "show it as curl" };

for (const [name, may] of Object.entries(shown)) {
  test(`${name} signs in, and is shown what the role may do to what is alice's, and nothing else`, async () => {
    const ask = { message: `may ${name}?`, schema: { type: "string" } };
    const open = await begin("alice", { agent: "scripted", content: script({ ask }), threadId: `open for ${name}` });
    const over = await begin("alice", { agent: "echo", content: `over for ${name}`, threadId: `over for ${name}` });
    const page = await visit(browser, "/");
    await page.getByLabel("Key or token").fill(keys[name]);
    await page.keyboard.press("Enter");
    await page.getByText(`${name} · `).waitFor();
    page.complaints.splice(0);
    const to = (path) => page.goto(new URL(path, page.url()).href);
    const buttons = (where) => page.locator(where).locator("button, a.button").allTextContents();
    for (const [which, { runId }, status] of [["open", open, "WAITING"], ["over", over, "COMPLETED"]]) {
      await to(`/runs/${runId}`);
      await page.locator(`.run-head [data-status=${status}]`).waitFor();
      await becomes(() => buttons(".run-head .actions"), may[which], which);
      if (which === "open") await becomes(() => buttons(".waits"), may.asked, "asked");
      const words = may[which].map((b) => does[b]).filter(Boolean);
      assert.deepEqual((await keysOf(page)).sort(), words.sort(), which);
    }
    await to("/waiting");
    const asks = page.locator(".waits", { hasText: ask.message });
    await asks.waitFor();
    await becomes(() => asks.locator("button").allTextContents(), may.asked, "waits");
    await to(`/threads/${over.conversationId}`);
    await page.locator(".one-thread .message[data-role=assistant]").waitFor();
    await page.locator(".one-thread > header .muted", { hasText: name }).first().waitFor();
    await becomes(() => buttons(".one-thread > header"), may.thread, "thread");
    await to("/agents?tab=tools");
    await page.locator(".tab-panel .panel").first().waitFor();
    await becomes(async () => (await page.getByRole("button", { name: "Try this tool", exact: true }).count()) > 0, may.tools > 0, "tools");
    await to("/admin");
    await page.getByRole("tab", { name: "You", exact: true }).waitFor();
    await becomes(() => page.getByRole("tab").allTextContents(), may.admin, "admin");
    await to("/runs");
    for (const { runId } of [open, over]) await page.locator(".runs li", { has: page.locator(`a[href*="${runId}"]`) }).getByRole("checkbox").check();
    await page.getByText("2 selected").waitFor();
    await becomes(async () => (await buttons(".bulk")).filter((b) => b !== "Select none"), may.picked, "picked");
    await quiet(page, `what ${name} may do`);
    if (may.over.includes("Say more")) {
      await to(`/runs/${over.runId}`);
      await page.getByRole("button", { name: "Say more", exact: true }).click();
      await page.getByRole("textbox", { name: "Message" }).fill(`${name} says more`);
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.locator(".facts").getByText("Generation").waitFor();
      await to(`/runs/${open.runId}`);
      await page.getByRole("button", { name: "Cancel", exact: true }).click();
      await page.locator(".run-head [data-status=CANCELLED]").waitFor();
    }
    await quiet(page, `what ${name} does`);
    await leave(page);
  });
}

test("an operator sees the threads of all users or one, and cannot change them", async () => {
  for (const name of ["alice", "bob"]) await begin(name, { agent: "echo", content: `a thread of ${name}`, threadId: "shared name" });
  const page = await visit(browser, "/threads", looks[0], { credential: keys.vera });
  await page.getByRole("link", { name: /a thread of bob/ }).waitFor();
  await soundInEachLook(page, "the threads of a project");
  await page.getByLabel("User", { exact: true }).selectOption("alice");
  await page.getByRole("link", { name: /a thread of bob/ }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: /a thread of alice/ }).click();
  await page.getByText("of alice", { exact: true }).waitFor();
  await page.locator(".one-thread .message[data-role=assistant]", { hasText: "a thread of alice" }).waitFor();
  for (const name of ["Rename", "Archive", "Delete"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  await quiet(page, "another's thread");
  await page.keyboard.press("/");
  await page.getByRole("combobox", { name: "Search" }).fill("shared name");
  for (const name of ["alice", "bob"]) await page.getByRole("option", { name: new RegExp(`a thread of ${name}|shared name.*${name}`) }).first().waitFor();
  await page.getByRole("option", { name: /thread · echo · bob/ }).click();
  await page.getByText("of bob", { exact: true }).waitFor();
  await leave(page);
  const nell = await visit(browser, "/threads", looks[0], { credential: keys.nell });
  await nell.getByText("No threads").waitFor();
  assert.equal(await nell.getByLabel("User", { exact: true }).count(), 0);
  await leave(nell);
});

test("an admin creates and revokes a key, and reads the audit log", async () => {
  await begin("alice", { agent: "echo", content: "for the audit" });
  const page = await visit(browser, "/admin", looks[0], { credential: keys.adam });
  await page.getByRole("tab", { name: "Keys", exact: true }).waitFor();
  for (const tab of await page.getByRole("tab").allTextContents()) {
    await page.getByRole("tab", { name: tab }).click();
    await page.getByRole("tab", { name: tab, selected: true }).waitFor();
    await soundInEachLook(page, tab);
  }
  await page.getByRole("tab", { name: "Limits", exact: true }).click();
  await page.getByLabel("User", { exact: true }).fill("alice");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByRole("heading", { name: "alice", exact: true }).waitFor();
  await page.getByRole("heading", { name: "Attachments of alice", exact: true }).waitFor();
  await soundInEachLook(page, "what a user has of its limits");
  await page.getByText("Threads on WebSockets", { exact: true }).first().waitFor();
  await page.getByRole("tab", { name: "Keys", exact: true }).click();
  await page.getByRole("button", { name: "Make a key", exact: true }).click();
  await soundInEachLook(page, "making a key");
  await page.getByLabel("User").fill("carol");
  await page.getByLabel("Name (optional)").fill("laptop");
  await page.getByRole("button", { name: "Make it", exact: true }).click();
  const key = (await page.getByRole("dialog").locator("pre").textContent()).trim();
  await soundInEachLook(page, "a key that was made");
  const carol = { Authorization: `Bearer ${key}` };
  const me = await call("GET", "/api/v1/me", undefined, carol);
  assert.deepEqual([me.user, me.projectId, me.role], ["carol", "p1", "user"]);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Revoke laptop", exact: true }).click();
  await soundInEachLook(page, "what is asked before a key is revoked");
  await page.getByRole("button", { name: "Revoke key", exact: true }).click();
  await page.getByRole("row", { name: /laptop/ }).getByText("revoked").waitFor();
  await becomes(() => call("GET", "/api/v1/me", undefined, carol).then(() => false, ({ message }) => refused.test(message)), true, "refused");
  await page.getByRole("tab", { name: "Audit", exact: true }).click();
  for (const done of ["start", "key"]) await page.getByRole("row", { name: new RegExp(done) }).first().waitFor();
  await page.getByLabel("Actor", { exact: true }).fill("alice");
  await page.getByRole("row", { name: /create key/ }).first().waitFor({ state: "detached" });
  await page.getByLabel("Actor", { exact: true }).fill("nobody");
  await page.getByLabel("Action", { exact: true }).selectOption("answer"); // before the typed text takes effect
  await page.waitForURL((url) => url.searchParams.get("actor") === "nobody" && url.searchParams.get("action") === "answer");
  await page.getByText("No entries").waitFor();
  await page.getByLabel("Actor", { exact: true }).fill("alice");
  await page.getByLabel("Action", { exact: true }).selectOption("start");
  await page.getByRole("row", { name: /alice start alice/ }).first().waitFor();
  await page.getByLabel("until").fill("2001-01-01T00:00");
  await page.getByText("No entries").waitFor();
  assert.equal(await page.getByText(key).count(), 0);
  await quiet(page, "the keys of a project");
  await leave(page);
});

test("the page of a run survives a kill of the server with accounts: no event is missing, and no sign-in is needed", async () => {
  const { runId } = await begin("alice", { agent: "scripted", content: script({ say: "begin" }, { tokens: 300, delayMs: 10 }, { say: "the end" }) });
  const page = await visit(browser, `/runs/${runId}?tab=messages`, looks[0], { credential: keys.alice });
  await page.evaluate(() => (window.kept = true));
  await page.waitForFunction(() => [...document.querySelectorAll(".message[data-role=assistant]")].some((m) => m.textContent.length > 200));
  assert.equal((await fetch(`${process.env.CONTROL}/crash`, { method: "POST" })).status, 200);
  await page.locator(".run-head [data-status=COMPLETED]").waitFor();
  await page.getByText("the end", { exact: true }).waitFor();
  await page.getByRole("status").filter({ hasText: "cannot be reached" }).waitFor({ state: "detached" });
  const log = await logged(await call("GET", `/api/projects/p1/agent-runs/${runId}`, undefined, as("alice")), as("alice"));
  await page.locator(".run-head [data-whole=true]", { hasText: log.length.toLocaleString("en") }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "Sign in", exact: true }).count(), 0);
  assert.ok(await page.evaluate(() => window.kept), "the page was loaded again");
  assert.deepEqual(page.complaints.filter((c) => !/ERR_CONNECTION|ERR_SOCKET|WebSocket connection to|ERR_EMPTY|503/.test(c)), []);
  await leave(page);
});

test("an operator filters runs by user", async () => {
  const path = "/api/projects/p1/agent-runs?limit=50&user=";
  const page = await visit(browser, "/runs", looks[0], { credential: keys.oscar });
  await page.getByRole("button", { name: "More", exact: true }).click();
  for (const name of ["bob", "alice"]) {
    await begin(name, { agent: "echo", content: `of ${name} alone` });
    await page.getByLabel("User", { exact: true }).fill(name);
    await page.waitForURL(`**user=${name}`);
    await page.getByRole("link", { name: `of ${name} alone` }).first().waitFor();
    const users = await page.locator(".runs .cell-user").allTextContents();
    assert.ok(users.every((u) => u === name), String(users));
    assert.ok((await call("GET", path + name, undefined, as("oscar"))).items.every((r) => r.user === name));
  }
  await quiet(page, "the runs of a user");
  await leave(page);
});
