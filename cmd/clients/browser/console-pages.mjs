// The pages Playground, Threads, Agents and Waiting in the console of Baton at BATON_URL. POST CONTROL/crash kills and restarts
// the server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, call, did, ended, leave, logged, looks, quiet, sound, soundInEachLook, soundInEachTheme, start, visit } from "./console-page.mjs";

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`;
const script = (...ops) => JSON.stringify({ do: ops });

test("playground messages appear in every tab and after a reload, and can be edited", async () => {
  const page = await visit(browser, "/playground/talk?agent=echo");
  const other = await visit(browser, "/playground/talk", looks[1], { apart: true });
  await page.getByRole("textbox", { name: "Message" }).fill(`hello ${hostile}`);
  await page.keyboard.press("Enter");
  for (const tab of [page, other]) await tab.locator(".message[data-role=assistant]", { hasText: "hello" }).waitFor();
  await page.locator(".outcome [data-status=COMPLETED]").waitFor();
  await page.reload();
  await page.locator(".message[data-role=assistant]", { hasText: "hello" }).waitFor();
  await page.locator(".message[data-role=user]").hover();
  await page.getByRole("button", { name: "Edit", exact: true }).first().click();
  await page.getByLabel("Your message").fill("goodbye");
  await page.getByRole("button", { name: "Send", exact: true }).first().click();
  for (const tab of [page, other]) {
    await tab.locator(".message[data-role=assistant]", { hasText: "goodbye" }).waitFor();
    assert.equal(await tab.locator(".message", { hasText: "hello" }).count(), 0);
    assert.equal(await tab.evaluate(() => window.hacked), undefined);
  }
  await sound(other, "the playground on a telephone");
  await soundInEachLook(page, "the playground");
  for (const tab of [page, other]) await leave(tab);
});

test("the playground mocks a tool, answers a question, and stops a run", async () => {
  const page = await visit(browser, "/playground/mock?agent=scripted");
  await page.getByRole("heading", { name: "Talk to scripted", exact: true }).waitFor();
  await soundInEachLook(page, "an empty playground");
  await page.getByRole("tab", { name: "Tools", exact: true }).click();
  await page.getByRole("button", { name: "Add a tool", exact: true }).click();
  await page.getByLabel("Description", { exact: true }).fill("Tells where I am.");
  await soundInEachLook(page, "a tool that is described");
  assert.equal(await page.getByLabel("Description", { exact: true }).inputValue(), "Tells where I am."); // after the window was narrowed and widened
  await page.getByRole("button", { name: "Keep it", exact: true }).click();
  await page.setViewportSize(looks[1]);
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  await page.getByRole("dialog", { name: "Settings", exact: true }).getByText("get_location").waitFor(); // the same tab as before, after the screen was turned
  await soundInEachTheme(page, "the settings on a telephone");
  await page.keyboard.press("Escape");
  await page.setViewportSize(looks[0]);
  await page.getByRole("textbox", { name: "Message" }).fill(script({ tool: "get_location", args: {} }, { ask: { message: "Go on?", schema: { type: "string" } } }, { say: "it is done" }));
  await page.keyboard.press("Enter");
  await page.getByRole("textbox", { name: "Result" }).fill('{"city":"Bergen"}');
  await soundInEachLook(page, "a call that waits");
  await page.getByRole("button", { name: "Send result", exact: true }).click();
  await page.getByRole("heading", { name: "Go on?", exact: true }).waitFor();
  await page.getByRole("textbox", { name: "Value" }).fill("yes");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.locator(".message", { hasText: /^Answer.*it is done/s }).waitFor();
  const { messages } = await call("GET", "/api/v1/threads/mock/messages");
  assert.deepEqual(JSON.parse(messages.find((m) => m.role === "tool").content), { city: "Bergen" });
  await page.getByRole("textbox", { name: "Message" }).fill(script({ tokens: 100000, delayMs: 50 }));
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.locator(".outcome [data-status=CANCELLED]").waitFor();
  await quiet(page, "the playground");
  await leave(page);
});

test("a question is answered in place, and disappears when it is answered elsewhere", async () => {
  const ask = { message: "Where shall it go?", schema: {
    type: "object", required: ["place", "replicas", "notify"],
    properties: {
      place: { title: "Place", oneOf: [{ const: "a", title: "Staging" }, { const: "b", title: "Production" }] },
      replicas: { type: "integer", title: "Replicas", minimum: 1, maximum: 9 },
      tags: { type: "array", title: "Tags", maxItems: 2, items: { type: "string", minLength: 2 } },
      days: { type: "array", title: "Days", uniqueItems: true, items: { enum: ["Monday", "Friday"] } },
      notify: { title: "Notify", oneOf: [
        { title: "Nobody", type: "object", properties: { kind: { const: "none" } } },
        { title: "By mail", type: "object", required: ["kind", "to"], properties: { kind: { const: "mail" }, to: { $ref: "#/$defs/address" } } },
      ] },
      owner: { type: "object", title: "Owner", required: ["name"], properties: { name: { type: "string", title: "Name" } } },
    },
    $defs: { address: { type: "string", format: "email", title: "Address" } },
  } };
  const [asks, leaves, own] = await Promise.all([
    start({ do: [{ ask }, { say: "thanks" }], threadId: "waits" }),
    start({ do: [{ ask: { message: "Shall it be so?" } }], threadId: "leaves" }),
    start({ agent: "scripted", threadId: "owns", content: script({ tool: "locate", args: { precision: "street" } }), tools: [{ name: "locate", description: "", parameters: { type: "object" } }] }),
  ]);
  await Promise.all([asks, leaves, own].map(({ runId }) => ended(runId, "WAITING")));
  const [page, other] = [await visit(browser, "/waiting"), await visit(browser, "/waiting", looks[1], { apart: true })];
  await page.getByRole("heading", { name: "Shall it be so?", exact: true }).waitFor();
  await soundInEachLook(page, "what waits");
  const form = page.locator(".panel", { hasText: "Where shall it go?" });
  await other.getByRole("heading", { name: "Where shall it go?", exact: true }).waitFor();
  await form.getByRole("button", { name: "Answer", exact: true }).click();
  await form.getByText("Required.").first().waitFor();
  await form.getByLabel("Place").selectOption("Production");
  await form.getByLabel("Replicas").fill("12");
  await form.getByRole("button", { name: /^Tags/ }).click();
  for (const [n, tag] of ["eu", "u"].entries()) {
    await form.getByRole("button", { name: "Add to Tags", exact: true }).click();
    await form.getByLabel(`Tags ${n + 1}`, { exact: true }).fill(tag);
  }
  await form.getByLabel("Friday").check();
  await form.getByLabel("Kind").selectOption("By mail");
  await form.getByLabel("Address").fill("a@example.org");
  await form.getByRole("button", { name: /^Owner/ }).click();
  await form.getByLabel("Name").fill("Ada");
  await form.getByRole("button", { name: "Answer", exact: true }).click();
  for (const problem of ["At most 9.", "At least 2 characters."]) await form.getByText(problem).waitFor();
  await form.getByLabel("Replicas").fill("3");
  await form.getByRole("button", { name: "Remove Tags 2", exact: true }).click();
  await soundInEachLook(page, "a form");
  await form.getByRole("button", { name: "Answer", exact: true }).click();
  const said = (await logged(await ended(asks.runId))).map(({ event }) => event.delta ?? "").join(""); // the answer and the thanks
  assert.deepEqual(JSON.parse(said.replace(/^answer: |thanks$/g, "")), {
    place: "b", replicas: 3, notify: { kind: "mail", to: "a@example.org" }, tags: ["eu"], days: ["Friday"], owner: { name: "Ada" },
  });

  const call = page.locator(".panel", { hasText: "Write the result of the front-end tool locate" });
  await call.getByText('"street"').waitFor();
  await call.getByRole("textbox", { name: "Result" }).fill("here");
  await page.locator(".asked-list").evaluate((list) => {
    new MutationObserver(() => (window.pressable = getComputedStyle(list).pointerEvents !== "none")).observe(list, { childList: true });
  });
  await call.getByRole("button", { name: "Send result", exact: true }).click();
  await ended(own.runId);
  await call.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => window.pressable), false, "what has moved under the pointer takes a press at once");
  await page.locator(".panel", { hasText: "Shall it be so?" }).getByRole("button", { name: "Allow", exact: true }).click();
  await ended(leaves.runId);
  for (const tab of [page, other]) {
    for (const name of ["Where shall it go?", "Shall it be so?"]) await tab.getByRole("heading", { name }).waitFor({ state: "detached" });
    await quiet(tab, "what waits");
    await leave(tab);
  }
});

test("a thread is found, renamed, archived and deleted", async () => {
  const run = await did({ agent: "echo", content: `said ${hostile}`, threadId: "kept" });
  const page = await visit(browser, `/threads/${run.conversationId}`);
  await page.locator(".one-thread .message[data-role=assistant]", { hasText: "said" }).waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await soundInEachLook(page, "a thread");
  await page.goto(new URL("/threads", page.url()).href);
  await page.getByRole("link", { name: /^said .*kept/ }).click(); // without a title, a thread is named after its last message
  for (const [old, title] of [["", "A kept thread"], ["A kept thread", "A kept and named thread"]]) {
    await page.getByRole("button", { name: "Rename", exact: true }).click();
    const field = page.getByLabel("New title");
    assert.equal(await field.inputValue(), old);
    if (old) await soundInEachLook(page, "renaming a thread");
    await field.fill(title);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: title, exact: true }).waitFor();
  }
  await page.getByRole("tab", { name: /^Runs/ }).click();
  await page.locator(".thread-runs").getByRole("link", { name: /^said/ }).waitFor();
  await soundInEachLook(page, "a thread's runs");
  await page.getByLabel("Title", { exact: true }).fill("named thread");
  await page.getByRole("link", { name: /^A kept and named thread/ }).waitFor();
  await page.getByRole("button", { name: "Archive", exact: true }).click();
  await page.getByRole("link", { name: /^A kept and named thread/ }).waitFor({ state: "detached" });
  await page.goto(new URL(`/threads/${run.conversationId}`, page.url()).href); // the address does not contain the archived state
  await page.getByRole("button", { name: "Restore", exact: true }).click();
  await page.getByRole("link", { name: /^A kept and named thread/ }).waitFor();
  await page.getByRole("button", { name: "Archive", exact: true }).waitFor();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await soundInEachLook(page, "what is asked before a thread is deleted");
  await page.getByRole("button", { name: "Delete it", exact: true }).click();
  await page.getByText("Thread deleted.").waitFor();
  await quiet(page, "threads");
  await leave(page);
});

test("agents, tools and workflows are listed, and a tool is called", async () => {
  const page = await visit(browser, "/admin");
  for (const [path, tabs] of [["/admin", ["You", "Limits", "Retention", "Servers"]], ["/agents", ["Agents", "Servers", "Workflows", "Tools"]]]) {
    if (path !== "/admin") await page.goto(new URL(path, page.url()).href);
    for (const tab of tabs) {
      await page.getByRole("tab", { name: new RegExp(`^${tab}`) }).click();
      await page.getByRole("tab", { name: new RegExp(`^${tab}`), selected: true }).waitFor();
      await page.locator(".tab-panel").locator(".panel, .empty").first().waitFor();
      await soundInEachLook(page, `${path}, ${tab}`);
    }
  }
  const tool = page.locator(".panel", { has: page.getByRole("heading", { name: "calculator", exact: true }) });
  await tool.getByRole("button", { name: "Try this tool", exact: true }).click();
  await tool.getByRole("textbox", { name: "expression" }).fill("6*7");
  await tool.getByRole("button", { name: "Call it", exact: true }).click();
  await tool.getByText("42", { exact: true }).waitFor();
  await soundInEachLook(page, "a tool that was tried");
  await quiet(page, "a tool that is tried");
  await leave(page);
});

// give drops files on the message, or pastes them.
const give = (page, how, files) =>
  page.getByRole("textbox", { name: "Message" }).evaluate((field, { how, files }) => {
    const data = new DataTransfer();
    for (const [name, size] of files) data.items.add(new File(["x".repeat(size)], name, { type: "text/plain" }));
    field.dispatchEvent(how === "drop" ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }) : new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, { how, files });

test("the playground renders only the visible part of a long thread", async () => {
  const messages = Array.from({ length: 600 }, (_, i) => ({ id: `m${i}`, role: i % 2 ? "assistant" : "user", content: `message number ${i}` }));
  const { runId } = await start({ agent: "echo", threadId: "long", messages: [...messages, { id: "last", role: "user", content: "the last" }] });
  await ended(runId);
  const page = await visit(browser, "/playground/long");
  await page.locator(".message[data-role=assistant]", { hasText: "the last" }).waitFor();
  assert.ok((await page.locator(".message").count()) < 60);
  const conversation = page.getByRole("region", { name: "Conversation" });
  for (;;) {
    await conversation.evaluate((e) => e.scrollTo(0, 0)); // rows above get their heights as they are rendered
    if (await page.getByText("message number 0", { exact: true }).isVisible()) break;
  }
  assert.ok((await page.locator(".message").count()) < 60);
  await soundInEachLook(page, "a long thread");
  await leave(page);
});

test("a message has files, also after a reload", async () => {
  const page = await visit(browser, "/playground/files?agent=echo");
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.locator("input[type=file]").setInputFiles([
    { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("remember the milk") },
    { name: "dot.png", mimeType: "image/png", buffer: png },
    { name: "tool.exe", mimeType: "application/x-msdownload", buffer: Buffer.from("\x7fELF\x00\x01") },
  ]);
  await page.getByText(/tool\.exe: /).waitFor(); // the refusal is shown
  const attached = page.getByRole("list", { name: "Attachments of this message" });
  await attached.getByText("dot.png").waitFor();
  await give(page, "drop", [["dropped.txt", 12], ["large.bin", 21 << 20]]); // a file that is too large is not sent
  await page.getByText(/large\.bin: The file has 21\.0 MiB; the limit is 20\.0 MiB/).waitFor();
  await attached.getByText("dropped.txt").waitFor();
  await give(page, "paste", [["pasted.txt", 7]]);
  await attached.getByText("pasted.txt").waitFor();
  await page.getByRole("button", { name: "Remove dropped.txt", exact: true }).click();
  page.complaints.splice(0, Infinity, ...page.complaints.filter((c) => !/415/.test(c))); // the complaint about the refused file
  await soundInEachLook(page, "files that go with a message, and some that do not");
  await page.getByRole("textbox", { name: "Message" }).fill("look at these");
  await page.keyboard.press("Enter");
  for (const reloads of [1, 0]) {
    await page.locator(".message[data-role=assistant]", { hasText: "look at these" }).waitFor();
    const note = page.getByRole("link", { name: /note\.txt/ });
    await note.waitFor();
    assert.equal(await (await fetch(await note.getAttribute("href"))).text(), "remember the milk");
    await page.waitForFunction(() => document.querySelector(".files img")?.naturalWidth === 1);
    if (reloads) await page.reload();
  }
  await quiet(page, "files in the playground");
  await leave(page);
});

test("an edited message keeps its picture", async () => {
  const image = { type: "image", source: { type: "data", value: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", mimeType: "image/png" } };
  await did({ agent: "echo", threadId: "pictured", messages: [{ role: "user", content: [{ type: "text", text: "look at it" }, image] }] });
  const page = await visit(browser, "/playground/pictured");
  await page.locator(".message[data-role=user]", { hasText: "look at it" }).hover();
  await page.getByRole("button", { name: "Edit", exact: true }).first().click();
  await page.getByLabel("Your message").fill("look again");
  await page.getByRole("button", { name: "Send", exact: true }).first().click();
  await page.locator(".message[data-role=assistant]", { hasText: "look again" }).waitFor();
  const { messages } = await call("GET", "/api/v1/threads/pictured/messages");
  assert.deepEqual(messages[0].content, [{ type: "text", text: "look again" }, image]);
  await page.locator(".message[data-role=user] img").waitFor();
  await page.locator(".message[data-role=user]").hover();
  await page.getByRole("button", { name: "Another answer", exact: true }).click();
  await page.locator(".outcome [data-status=COMPLETED]").waitFor();
  const after = await call("GET", "/api/v1/threads/pictured/messages");
  assert.deepEqual(after.messages[0].content, messages[0].content);
  await quiet(page, "a picture");
  await leave(page);
});

test("the playground survives a kill of the server during an answer, and shows the same as after a reload", async () => {
  const page = await visit(browser, "/playground/killed?agent=scripted");
  await page.getByRole("textbox", { name: "Message" }).fill(script({ say: "begin" }, { tokens: 400, delayMs: 10 }, { say: "the very end" }));
  await page.keyboard.press("Enter");
  await page.evaluate(() => (window.kept = true));
  await page.getByText(/000 001 002/).first().waitFor();
  assert.equal((await fetch(`${process.env.CONTROL}/crash`, { method: "POST" })).status, 200);
  await page.getByText("the very end", { exact: true }).waitFor();
  await page.locator(".outcome [data-status=COMPLETED]").waitFor();
  assert.ok(await page.evaluate(() => window.kept), "the page was loaded again");
  const shown = () => page.locator(".message").evaluateAll((list) => list.map((m) => m.innerText.replace(/^.*\n[\d:]*\s*/, "").trim()));
  const live = await shown();
  await page.reload();
  await page.getByText("the very end", { exact: true }).waitFor();
  assert.deepEqual(live, await shown());
  // While the server is down, the browser complains itself.
  assert.deepEqual(page.complaints.filter((c) => !/ERR_CONNECTION|ERR_SOCKET|WebSocket connection to|ERR_EMPTY|503/.test(c)), []);
  await leave(page);
});

// look hides the page, or makes it visible.
const look = (page, hidden) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (hidden ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
    window.dispatchEvent(new Event("visibilitychange"));
  }, hidden);

test("lists follow changes, and request nothing without changes or in a hidden tab", async () => {
  const page = await visit(browser, "/runs?q=news", looks[0], { apart: true });
  const told = [];
  page.on("websocket", (ws) => ws.on("framereceived", ({ payload }) => told.push(String(payload))));
  await page.clock.install();
  await page.reload();
  await page.waitForFunction(() => document.querySelector(".empty"));
  await did({ agent: "echo", content: "news 1" });
  await page.getByRole("link", { name: "news 1" }).waitFor();
  await page.locator(".runs [data-status=COMPLETED]").waitFor();
  const lists = () => page.asked.filter((url) => /agent-runs|interrupts|threads/.test(url)).length;
  await page.clock.runFor(10_000); // handles the last change
  const before = lists();
  await page.clock.runFor(120_000);
  assert.equal(lists(), before, "lists are asked for again and again");

  await look(page, true);
  const frames = told.length;
  await did({ agent: "echo", content: "news 2" });
  while (!told.slice(frames).some((f) => f.includes("changed"))) await page.evaluate(() => 0);
  await page.clock.runFor(10_000);
  assert.equal(lists(), before, "a page that nobody looks at asks");
  await look(page, false);
  await page.getByRole("link", { name: "news 2" }).waitFor();

  await look(page, true); // long enough to close the connection
  await page.clock.runFor(60_000);
  await did({ agent: "echo", content: "news 3" });
  await look(page, false);
  await page.getByRole("link", { name: "news 3" }).waitFor();
  await did({ agent: "echo", content: "news 4" });
  await page.getByRole("link", { name: "news 4" }).waitFor();
  await quiet(page, "lists that are told");
  await leave(page);
});
