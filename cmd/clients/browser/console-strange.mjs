// The console of Baton at BATON_URL with unexpected data in its database. POST CONTROL/replace {from: to} replaces texts in the
// stored data.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, did, ended, leave, quiet, soundInEachLook, start, tab, untilShown, visit } from "./console-page.mjs";

const { BATON_URL, CONTROL } = process.env;

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

// React logs each part that failed to render.
const forgive = (page) => page.complaints.splice(0, Infinity, ...page.complaints.filter((c) => !/\b\w*Error: /.test(c)));

async function replace(texts) {
  const answer = await fetch(`${CONTROL}/replace`, { method: "POST", body: JSON.stringify(texts) });
  assert.ok(answer.ok, await answer.text());
}

// Replacements of a question's schema.
const schemas = {
  "a member that is null": { type: "object", properties: { a: null, b: { type: "string", title: "Good" } } },
  "a list that is a number": { type: "object", required: 5, properties: { a: { type: "string" } } },
  "a schema that is itself": { $ref: "#" },
  "a title that is an object": { type: "object", title: {}, properties: { a: { type: "string", title: { de: "A" } } } },
  "choices that are none": { type: "string", enum: 7 },
  "no variants": { oneOf: [null, 3] },
  "a broken address": { $ref: "#/%" },
};
const names = Object.keys(schemas);

test("malformed questions do not affect others, and can be answered", async () => {
  await did({ do: [{ ask: { message: "An honest question", schema: { type: "object", properties: { place: { type: "string", title: "Place" } } } } }], threadId: "honest" }, "WAITING");
  const runs = [];
  for (const name of names) runs.push(await did({ do: [{ ask: { message: name, schema: { title: name } } }, { say: "thank you" }], threadId: name }, "WAITING"));
  await replace(Object.fromEntries(names.map((name) => [JSON.stringify({ title: name }), JSON.stringify(schemas[name])])));
  const page = await visit(browser, "/waiting");
  await page.getByLabel("Place").waitFor();
  for (const name of names) await page.getByRole("group", { name }).getByText(name).first().waitFor();
  assert.equal(await page.getByText("This page has failed").count(), 0);
  forgive(page);
  await soundInEachLook(page, "questions that are none");
  const broken = page.getByRole("group", { name: "a list that is a number" });
  await broken.getByText("The console cannot draw this").waitFor();
  await broken.getByRole("textbox", { name: "Answer" }).fill(`{"a": "b"}`);
  await broken.getByRole("button", { name: "Answer", exact: true }).click();
  await ended(runs[1].id);
  for (const [i, run] of runs.entries()) {
    await page.goto(new URL(`/runs/${run.id}`, page.url()).href);
    await page.locator(".run-head [data-whole=true]").waitFor();
    assert.equal(await page.getByText("This page has failed").count(), 0, names[i]);
    for (const part of ["Messages", "Events", "Timeline"]) await tab(page, part);
    await page.locator(".line").first().waitFor();
  }
  forgive(page);
  await quiet(page, "runs that ask what is no question");
  await leave(page);
});

// uploaded returns the path of a file.
async function uploaded() {
  const form = new FormData();
  form.set("file", new Blob(["some text"], { type: "text/plain" }), "a.txt");
  const answer = await fetch(`${BATON_URL}/api/v1/agent/attachments`, { method: "POST", body: form });
  assert.equal(answer.status, 201);
  return (await answer.json()).path;
}

// Replacements of a message's metadata.
const metadata = {
  "no list": { attachments: 5 },
  "no files": { attachments: [null, 5, "a", { filename: "b" }, { path: "p", mimeType: {} }, { path: "q", filename: ["c"] }] },
  "a file alone": { attachments: [{ path: await uploaded() }] },
  "no calls": { attachments: null, toolCalls: 5, toolCallId: {} },
  "empty calls": { toolCalls: [null, {}] },
};

test("messages with odd metadata are shown with all others", async () => {
  const runs = [];
  for (const name of Object.keys(metadata)) {
    const { runId } = await start({ agent: "echo", threadId: "odd", messages: [{ role: "user", content: `It has ${name}`, metadata: { mark: name } }] });
    runs.push(await ended(runId));
  }
  await replace(Object.fromEntries(Object.entries(metadata).map(([name, value]) => [JSON.stringify({ mark: name }), JSON.stringify(value)])));
  const page = await visit(browser, "/playground/odd?agent=echo");
  await page.locator(".message[data-role=user]", { hasText: "It has empty calls" }).waitFor();
  forgive(page);
  await soundInEachLook(page, "a conversation with odd messages");
  for (const run of runs) {
    await page.goto(new URL(`/runs/${run.id}?tab=messages`, page.url()).href);
    await page.locator(".message[data-role=assistant]").first().waitFor();
    await tab(page, "Input");
    await page.getByRole("heading", { name: "Messages", exact: true }).waitFor();
    await page.getByText(/^It has/).first().waitFor();
    assert.equal(await page.getByText("This page has failed").count(), 0);
  }
  await page.goto(new URL(`/threads/${runs[0].conversationId}`, page.url()).href);
  const list = page.getByRole("region", { name: "Messages" });
  await list.waitFor();
  for (const name of Object.keys(metadata).reverse()) { // from the newest, where the list opens
    await untilShown(list, list.getByText(`It has ${name}`));
  }
  forgive(page);
  await soundInEachLook(page, "a thread with odd messages");
  await leave(page);
});

test("odd events and calls of questions are shown with all others", async () => {
  const run = await did({ do: [{ say: "before" }, { progress: 0.5, message: "half way" }, { ask: { message: "Go on?" } }], threadId: "events" }, "WAITING");
  await replace({ '"message":"half way"': '"message":{"half":null}', '"message":"Go on?"': '"message":"Go on?","metadata":{"toolName":{"a":1},"input":[null],"query":{}}' });
  const page = await visit(browser, `/runs/${run.id}`);
  await page.locator(".run-head [data-whole=true]").waitFor();
  await page.locator(".waits").getByText("The console cannot draw this").waitFor();
  await page.locator(".line").first().waitFor();
  await tab(page, "Events");
  await page.locator(".event", { hasText: "CUSTOM" }).first().click();
  await page.getByRole("complementary").getByText("half", { exact: false }).first().waitFor();
  await tab(page, "Messages");
  await page.locator(".message[data-role=assistant]", { hasText: "before" }).waitFor();
  forgive(page);
  await soundInEachLook(page, "a run with odd events");
  await page.goto(new URL("/", page.url()).href);
  await page.getByRole("heading", { name: "Overview", exact: true }).waitFor();
  await page.locator(".panel", { hasText: "Waiting for an answer" }).getByRole("listitem").first().waitFor();
  await page.getByRole("link", { name: "Waiting", exact: false }).first().click();
  await page.getByRole("group", { name: "Go on?", exact: true }).getByRole("textbox", { name: "Answer" }).waitFor();
  await leave(page);
});
