// The console with tokens of an identity provider, signed with SECRET, for Baton at BATON_URL.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, before, test } from "node:test";
import { browse, leave, looks, quiet, visit } from "./console-page.mjs";

let browser;
before(async () => (browser = await browse()));
after(() => browser.close());

// token returns a JSON Web Token that expires after some seconds.
function token(seconds, secret = process.env.SECRET) {
  const now = Math.floor(Date.now() / 1_000);
  const claims = { iss: "issuer", aud: "baton", sub: "dora", projects: ["p1", "p2"], roles: ["operator"], iat: now, exp: now + seconds };
  const body = [{ alg: "HS256", typ: "JWT" }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
}

test("sign-in with a token, a conversation, and another project", async () => {
  const page = await visit(browser, "/", looks[1]);
  const field = page.getByLabel("Key or token");
  for (const wrong of [token(-3_600), token(600, "another secret, of at least 32 bytes")]) {
    await field.fill(wrong);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("alert").waitFor();
  }
  const good = token(600);
  await field.fill(good);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Overview", exact: true }).waitFor();
  page.complaints.splice(0);
  await page.goto(new URL("/admin", page.url()).href);
  for (const fact of ["dora", "operator", "p1, p2", "JSON Web Tokens"]) await page.getByText(fact, { exact: true }).first().waitFor();
  await page.goto(new URL("/playground/by-token?agent=echo", page.url()).href);
  await page.getByRole("textbox", { name: "Message" }).fill("with a token");
  await page.keyboard.press("Enter");
  await page.locator(".message[data-role=assistant]", { hasText: "with a token" }).waitFor();
  await page.getByRole("button", { name: "Menu", exact: true }).click();
  await page.getByLabel("Project").selectOption("p2");
  await page.waitForURL("**/p/p2/");
  await page.goto(new URL("/p/p2/runs", page.url()).href);
  await page.getByText("No runs yet").waitFor();
  assert.ok(page.asked.every((url) => !url.includes(good)));
  await quiet(page, "a person with a token");
  await leave(page);
});
