// Judges recorded logs: [{thread, projection, events}] on stdin.
import { readFileSync } from "node:fs";
import { test } from "node:test";
import assert from "node:assert/strict";
import { client, newest, rxjs, schemas, warnings } from "./client.mjs";

const all = (events, ...operators) => rxjs.lastValueFrom(rxjs.from(events).pipe(...operators, rxjs.toArray()));

for (const { thread, projection, events } of JSON.parse(readFileSync(0))) {
  test(`${thread}, ${projection}: ${events.length} events`, async () => {
    for (const event of events) {
      const { success, error } = schemas.EventSchemas.safeParse(event);
      assert.ok(success, `${JSON.stringify(event)}\n${error?.message}`);
    }
    await all(events, client.verifyEvents(false));
    if (projection !== "seed" && newest) {
      warnings.length = 0;
      await all(events, client.enforceEvents());
      assert.deepEqual(warnings, []);
    }
  });
}
