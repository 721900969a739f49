// Takes the pictures of the console that the documentation shows: node screenshots.mjs <baton> <folder>.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [baton, folder] = process.argv.slice(2).map((p) => resolve(p));
process.env.CHROMIUM ??= "/usr/bin/chromium";

const dir = await mkdtemp(join(tmpdir(), "baton-screenshots-"));
const port = await new Promise((done) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => done(port));
  });
});
process.env.BATON_URL = `http://127.0.0.1:${port}`;
const server = spawn(baton, ["serve", "--listen", `127.0.0.1:${port}`], { cwd: dir, stdio: "ignore" });
for (let up = false; !up; ) {
  await new Promise((done) => setTimeout(done, 100));
  up = await fetch(`${process.env.BATON_URL}/readyz`).then((r) => r.ok, () => false);
}

const { browse, did, leave, start, visit } = await import("./console-page.mjs");
const script = (...list) => ({ do: list });
const topics = ["a picnic for twelve", "the quarterly report", "a bicycle tour along the river", "moving to a new office"];
await Promise.all(topics.map((content) => did({ workflowId: "demo", content })));
for (const n of [1, 2, 3, 4, 5]) await did({ agent: "echo", content: `Summarise ticket ${4100 + n}` });
await did(script({ say: "Looking it up" }, { fail: "The provider refused the request: too many tokens", code: "provider_error" }), "FAILED");
await did({ ...script({ ask: { message: "The refund is over 500 €. May it be paid?" } }), threadId: "refund 7731" }, "WAITING");
await start(script({ say: "Watching the mailbox" }, { tokens: 3000, delayMs: 20 }));
const run = await did({ workflowId: "demo", content: "a picnic by the sea" });

const browser = await browse();
const wide = { width: 1280, height: 800, theme: "light" };
const pictures = [
  { name: "overview", path: "/", look: wide, until: ".chart canvas" },
  { name: "run", path: `/runs/${run.id}`, look: wide, until: ".line" },
  { name: "runs-dark", path: "/runs", look: { ...wide, theme: "dark" }, until: ".runs li" },
  { name: "run-phone", path: `/runs/${run.id}`, look: { width: 390, height: 800, theme: "dark" }, until: ".line" },
];
for (const { name, path, look, until } of pictures) {
  const page = await visit(browser, path, look);
  await page.locator(until).first().waitFor();
  await page.evaluate(() => new Promise((done) => setTimeout(done, 500))); // the graph finds its place
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await leave(page);
}
await browser.close();
server.kill();
await new Promise((done) => server.once("exit", done));
await rm(dir, { recursive: true });
