// Checks recorded logs: [{thread, projection, events, joined?}] on stdin.
import { readFileSync } from "node:fs";
import { test } from "node:test";
import assert from "node:assert/strict";
import { client, newest, rxjs, schemas, warnings } from "./client.mjs";

const all = (events, ...operators) => rxjs.lastValueFrom(rxjs.from(events).pipe(...operators, rxjs.toArray()));
const unknown = ({ type }) => !(type in client.EventType);

class Recorded extends client.AbstractAgent {
  run() {
    return rxjs.from(this.events);
  }
}

// The messages and state that a client derives from events.
const folded = async (events) => {
  const agent = new Recorded();
  agent.events = events;
  await agent.runAgent();
  return { messages: agent.messages, state: agent.state };
};

// What a client shows that removes messages when the log says so.
const shown = ({ messages, state }, events) => {
  const gone = events.filter((e) => e.type === "CUSTOM" && e.name === "messages-retracted").flatMap((e) => e.value.messageIds);
  return { messages: messages.filter((m) => !gone.includes(m.id)), state };
};

for (const { thread, projection, events, joined } of JSON.parse(readFileSync(0))) {
  test(`${thread}, ${projection}: ${events.length} events`, async () => {
    const theirs = events.filter(unknown);
    const known = events.filter((event) => !unknown(event));
    assert.ok(theirs.length === 0 || projection === "agui.1", "dialect 0.0 has no unknown types");
    for (const event of known) {
      const { success, error } = schemas.EventSchemas.safeParse(event);
      assert.ok(success, `${JSON.stringify(event)}\n${error?.message}`);
    }
    await all(known, client.verifyEvents(false));
    if (projection !== "seed" && newest) {
      warnings.length = 0;
      await all(known, client.enforceEvents());
      assert.deepEqual(warnings, []);
      await all(theirs, client.enforceEvents());
      assert.equal(warnings.length, theirs.length, "only that it does not know them");
    }
    if (joined) {
      warnings.length = 0;
      assert.deepEqual(shown(await folded(known), known), await folded(joined), "the whole log and a client that joins now");
      assert.deepEqual(warnings, []);
    }
  });
}
