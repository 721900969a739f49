// The requests that the playground of Baton at BATON_URL shows work in a terminal and as code.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { after, before, test } from "node:test";
import { browse, leave, quiet, soundInEachTheme, visit } from "./console-page.mjs";

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

const execute = promisify(execFile);
const strict = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--types", "node", "--typeRoots", resolve("../../../transports/console/web/node_modules/@types")];

test("the shown requests work in a terminal and as code", async () => {
  const dir = await mkdtemp(join(tmpdir(), "baton-snippet-"));
  await symlink(resolve("../agui1/node_modules"), join(dir, "node_modules"));
  const page = await visit(browser, "/playground/snippet?agent=echo");
  const said = `it's "quoted" & <b>`;
  await page.getByRole("textbox", { name: "Message" }).fill(said);
  await page.getByRole("tab", { name: "Context", exact: true }).click();
  await page.getByRole("button", { name: "Add context", exact: true }).click();
  await page.getByLabel("Description of context 1").fill("time");
  await page.getByLabel("Value of context 1").fill("noon");
  await page.getByRole("tab", { name: "Request", exact: true }).click();
  await soundInEachTheme(page, "the request of a message");
  const [curl, agent] = await page.locator(".side pre").allTextContents();
  const { stdout: events } = await execute("sh", ["-c", curl]);
  assert.ok(events.includes(JSON.stringify(said).slice(1, -1)) && events.includes("RUN_FINISHED"), events);
  await page.getByLabel("Who answers").selectOption("workflow:demo");
  const workflow = await page.getByLabel("TypeScript, with @ag-ui/client", { exact: true }).textContent();
  await writeFile(join(dir, "agent.mts"), agent);
  await writeFile(join(dir, "workflow.mts"), workflow);
  await execute("node", [resolve("../../../transports/console/web/node_modules/.bin/tsc"), ...strict, "agent.mts", "workflow.mts"], { cwd: dir });
  for (const program of ["agent.mjs", "workflow.mjs"]) {
    const { stdout } = await execute("node", [program], { cwd: dir });
    assert.ok(stdout.includes(program === "agent.mjs" ? said : "I found 3 sources"), stdout);
  }
  await page.locator(".message[data-role=assistant]", { hasText: said }).last().waitFor(); // the request used the page's thread
  await quiet(page, "the request of a message");
  await leave(page);
  await rm(dir, { recursive: true });
});
