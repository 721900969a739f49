// A person talks in the playground, looks at threads and at what is offered, and answers what waits, in the console of Baton at BATON_URL.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, call, did, ended, leave, looks, quiet, sound, start, visit } from "./console-page.mjs";

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`;
const script = (...ops) => JSON.stringify({ do: ops });

test("what is said in the playground is there in every tab and after a reload, and can be said otherwise", async () => {
  const page = await visit(browser, "/playground/talk?agent=echo");
  const other = await visit(browser, "/playground/talk", looks[1]);
  await page.getByRole("textbox", { name: "Message" }).fill(`hello ${hostile}`);
  await page.keyboard.press("Enter");
  for (const tab of [page, other]) await tab.locator(".message[data-role=assistant]", { hasText: "hello" }).waitFor();
  await page.locator(".outcome [data-status=COMPLETED]").waitFor();
  await page.reload();
  await page.locator(".message[data-role=assistant]", { hasText: "hello" }).waitFor();
  await page.locator(".message[data-role=user]").hover();
  await page.getByRole("button", { name: "Edit", exact: true }).first().click();
  await page.getByLabel("Your message").fill("goodbye");
  await page.getByRole("button", { name: "Send" }).first().click();
  for (const tab of [page, other]) {
    await tab.locator(".message[data-role=assistant]", { hasText: "goodbye" }).waitFor();
    assert.equal(await tab.locator(".message", { hasText: "hello" }).count(), 0);
    assert.equal(await tab.evaluate(() => window.hacked), undefined);
    await sound(tab, "the playground");
    await leave(tab);
  }
});

test("a tool is mocked by hand, a question is answered, and a run is stopped", async () => {
  const page = await visit(browser, "/playground/mock?agent=scripted");
  await page.getByRole("tab", { name: "Tools" }).click();
  await page.getByRole("button", { name: "Add a tool" }).click();
  await page.getByRole("button", { name: "Keep it" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill(script({ tool: "get_location", args: {} }, { ask: { message: "Go on?", schema: { type: "string" } } }, { say: "it is done" }));
  await page.keyboard.press("Enter");
  await page.getByRole("textbox", { name: "Result" }).fill('{"city":"Bergen"}');
  await sound(page, "a call that waits");
  await page.getByRole("button", { name: "Return it" }).click();
  await page.getByRole("heading", { name: "Go on?" }).waitFor();
  await page.getByRole("textbox", { name: "Value" }).fill("yes");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.locator(".message", { hasText: /^Answer.*it is done/s }).waitFor();
  const { messages } = await call("GET", "/api/v1/threads/mock/messages");
  assert.deepEqual(JSON.parse(messages.find((m) => m.role === "tool").content), { city: "Bergen" });
  await page.getByRole("textbox", { name: "Message" }).fill(script({ tokens: 100000, delayMs: 50 }));
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".outcome [data-status=CANCELLED]").waitFor();
  await quiet(page, "the playground");
  await leave(page);
});

test("what waits is answered where it stands", async () => {
  const { runId } = await start({ do: [{ ask: { message: "Shall it be so?" } }], threadId: "waits" });
  await ended(runId, "WAITING");
  for (const look of looks) {
    const page = await visit(browser, "/waiting", look);
    await page.getByRole("heading", { name: "Shall it be so?" }).waitFor();
    await sound(page, `what waits at ${look.width} px, ${look.theme}`);
    await leave(page);
  }
  const page = await visit(browser, "/waiting");
  await page.locator(".panel", { hasText: "Shall it be so?" }).getByRole("button", { name: "Allow" }).click();
  await ended(runId);
  await page.getByRole("heading", { name: "Shall it be so?" }).waitFor({ state: "detached" });
  await leave(page);
});

test("a thread is found, renamed, put away and deleted", async () => {
  const run = await did({ agent: "echo", content: `said ${hostile}`, threadId: "kept" });
  for (const look of looks) {
    const page = await visit(browser, `/threads/${run.conversationId}`, look);
    await page.locator(".day .message[data-role=assistant]", { hasText: "said" }).waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    await sound(page, `a thread at ${look.width} px, ${look.theme}`);
    await leave(page);
  }
  const page = await visit(browser, "/threads");
  await page.getByRole("link", { name: /^kept/ }).click();
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByLabel("New title").fill("A kept thread");
  await page.keyboard.press("Enter");
  await page.getByLabel("Title", { exact: true }).fill("kept thread");
  await page.getByRole("link", { name: /^A kept thread/ }).waitFor();
  await page.getByRole("button", { name: "Archive" }).click();
  await page.getByRole("link", { name: /^A kept thread/ }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("The thread is deleted.").waitFor();
  await quiet(page, "threads");
  await leave(page);
});

test("what is offered is shown, and a tool is tried", async () => {
  for (const look of looks) {
    for (const path of ["/agents", "/agents?tab=tools", "/agents?tab=workflows", "/admin", "/admin?tab=limits", "/admin?tab=retention"]) {
      const page = await visit(browser, path, look);
      await page.locator(".tab-panel .panel").first().waitFor();
      await sound(page, `${path} at ${look.width} px, ${look.theme}`);
      await leave(page);
    }
  }
  const page = await visit(browser, "/agents?tab=tools");
  const tool = page.locator(".panel", { has: page.getByRole("heading", { name: "calculator" }) });
  await tool.getByRole("button", { name: "Try this tool" }).click();
  await tool.getByRole("textbox", { name: "expression" }).fill("6*7");
  await tool.getByRole("button", { name: "Call it" }).click();
  await tool.getByText("42", { exact: true }).waitFor();
  await quiet(page, "a tool that is tried");
  await leave(page);
});

test("files go with a message, and are there after a reload", async () => {
  const page = await visit(browser, "/playground/files?agent=echo");
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.locator("input[type=file]").setInputFiles([
    { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("remember the milk") },
    { name: "dot.png", mimeType: "image/png", buffer: png },
    { name: "tool.exe", mimeType: "application/x-msdownload", buffer: Buffer.from("\x7fELF\x00\x01") },
  ]);
  await page.getByText(/tool\.exe: /).waitFor(); // it is refused, and said to be
  const attached = page.getByRole("list", { name: "Attached to this message" });
  await attached.getByText("dot.png").waitFor();
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
  page.complaints = page.complaints.filter((c) => !/415/.test(c)); // of the one that is refused
  await quiet(page, "files in the playground");
  await leave(page);
});
