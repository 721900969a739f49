// The console of Baton at BATON_URL in the Firefox at FIREFOX, driven by commands of WebDriver BiDi that every ESR from 128 on has.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { WebSocket } from "ws";
import { call, did, start } from "./console-page.mjs";

const { BATON_URL: base, FIREFOX: executablePath } = process.env;

const preferences = `
user_pref("app.update.disabledForTesting", true);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("remote.active-protocols", 1);
user_pref("services.settings.server", "data:,");
`;

let profile, firefox, socket, context;
const answers = new Map(); // by the id of their command
const complaints = [];

before(async () => {
  profile = await mkdtemp(join(tmpdir(), "baton-firefox"));
  await writeFile(join(profile, "user.js"), preferences);
  firefox = spawn(executablePath, ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const lines = [];
  let address;
  for await (const line of createInterface({ input: firefox.stderr })) {
    lines.push(line);
    address = /WebDriver BiDi listening on (ws:\S+)/.exec(line)?.[1];
    if (address) break;
  }
  assert.ok(address, `Firefox ended:\n${lines.join("\n")}`);
  firefox.stderr.resume();
  socket = new WebSocket(`${address}/session`);
  socket.on("message", (data) => {
    const message = JSON.parse(data);
    if (message.type === "event") {
      if (message.params.level === "error") complaints.push(message.params.text);
    } else answers.get(message.id)?.(message);
  });
  await once(socket, "open");
  await command("session.new", { capabilities: {} });
  await command("session.subscribe", { events: ["log.entryAdded"] });
  const tree = await command("browsingContext.getTree", {});
  context = tree.contexts[0].context;
});

after(async () => {
  socket?.close();
  if (firefox?.exitCode === null && firefox.kill("SIGKILL")) await once(firefox, "exit");
  if (profile) await rm(profile, { recursive: true, force: true, maxRetries: 10 });
});

let commands = 0;
async function command(method, params) {
  const id = ++commands;
  const answer = new Promise((resolve) => answers.set(id, resolve));
  socket.send(JSON.stringify({ id, method, params }));
  const message = await answer;
  assert.equal(message.type, "success", `${method}: ${message.error}: ${message.message}`);
  return message.result;
}

const goto = (url) => command("browsingContext.navigate", { context, url, wait: "complete" });

// evaluate returns what a function returns in the page for arguments that are strings.
async function evaluate(f, ...args) {
  const { type, result, exceptionDetails } = await command("script.callFunction", {
    functionDeclaration: String(f),
    arguments: args.map((value) => ({ type: "string", value })),
    target: { context },
    awaitPromise: true,
  });
  assert.equal(type, "success", exceptionDetails?.text);
  return result.value;
}

// shown waits until an element that matches a selector contains the text.
const shown = (selector, text) =>
  evaluate(
    async (selector, text) => {
      const isShown = () => [...document.querySelectorAll(selector)].some((e) => e.textContent.includes(text) && e.checkVisibility());
      while (!isShown()) await new Promise((resolve) => setTimeout(resolve, 50));
    },
    selector,
    text,
  );

test("every page of the console works in Firefox", async () => {
  const run = await did({ agent: "echo", content: "a word from before", threadId: "old" });
  const live = await start({ do: [{ tokens: 100_000, delayMs: 20 }], threadId: "live" });
  await goto(base);
  const open = async (path, part, text) => {
    await evaluate((path) => history.pushState(null, "", path), path); // as a link does
    await shown(part, text);
    assert.ok(!(await evaluate(() => document.body.textContent)).includes("This page has failed"), path);
    assert.deepEqual(complaints, [], path);
  };
  await open("/", "h1", "Overview");
  await open("/runs", ".runs li", "a word from before");
  await open(`/runs/${encodeURIComponent(run.id)}?tab=messages`, ".message-row", "a word from before");
  await open(`/runs/${encodeURIComponent(live.runId)}?tab=messages`, ".messages", "000 001 002");
  await shown(".messages", "020 021 022"); // it goes on
  await call("POST", `/api/projects/default/agent-runs/${encodeURIComponent(live.runId)}/cancel`);
  await shown(".run-head [data-status=CANCELLED]", "");
  await open("/threads/old", ".message-row", "a word from before");
  await open("/playground/new?agent=echo", "h1,h2", "Talk to echo");
  await shown("textarea", "");
  await evaluate(() => document.querySelector("textarea").focus());
  const keys = [..."hello from Firefox", "\uE006"]; // and Enter
  await command("input.performActions", {
    context,
    actions: [{ type: "key", id: "keyboard", actions: keys.flatMap((value) => [{ type: "keyDown", value }, { type: "keyUp", value }]) }],
  });
  await shown(".message[data-role=assistant]", "hello from Firefox");
  await open("/agents?tab=tools", ".panel", "calculator");
  await open("/waiting", "h1", "Waiting");
  await open("/admin", "h1", "Admin");
  await goto(`${base}/docs`);
  await shown(".opblock", "/healthz");
  assert.deepEqual(complaints, []);
});
