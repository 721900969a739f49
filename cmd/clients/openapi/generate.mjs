// Tools for the document at BATON_URL: a linter, and a generator whose client is compiled and run.
import { test } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { createConfig, lint } from "@redocly/openapi-core";
import openapi, { astToString } from "openapi-typescript";

const base = process.env.BATON_URL;

test("the linter finds nothing", async () => {
  const rules = {
    "operation-2xx-response": "off", // a WebSocket's answer is 101
    "no-unused-components": "off", // components of WebSockets are referred to by x-websocket
  };
  const config = await createConfig({ extends: ["recommended"], rules });
  const problems = await lint({ ref: `${base}/openapi.json`, config });
  assert.deepEqual(
    problems.map(({ ruleId, message, location }) => `${ruleId} at ${location?.[0]?.pointer}: ${message}`),
    [],
  );
});

test("a typed client compiles and calls", async () => {
  const document = await (await fetch(`${base}/openapi.json`)).json();
  await mkdir("generated", { recursive: true });
  await writeFile("generated/api.ts", astToString(await openapi(document)));
  await cp("call.ts", "generated/call.ts");
  const tsc = ["node_modules/typescript/bin/tsc", "--strict", "--target", "es2022", "--module", "nodenext", "generated/call.ts"];
  try {
    execFileSync(process.execPath, tsc, { encoding: "utf8" });
  } catch ({ stdout }) {
    assert.fail(stdout);
  }
  const { call } = await import("./generated/call.js");
  assert.equal(await call(base), "COMPLETED");
});
