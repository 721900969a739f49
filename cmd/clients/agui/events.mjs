// Every kind of event that a plugin may emit, in any size, for HttpAgent and for viewers that join later.
import { after, describe, test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Tracked, agrees, connected, texts } from "./agent.mjs";
import { client, newest, warnings } from "./client.mjs";

const scenarios = JSON.parse(readFileSync(new URL("events.json", import.meta.url)));

// play runs an agent and answers its questions. Viewers that join at every nth event end with the same messages and state as one that
// watched from the start.
const play = async (agent, name, content, nth = 7) => {
  const turn = async (run) => {
    const viewers = [];
    await run({ onEvent: () => void (agent.types.length % nth === 0 && viewers.push(connected(name, agent.threadId))) });
    for (const [i, viewer] of (await Promise.all(viewers)).entries()) {
      assert.deepEqual(viewer.messages, agent.messages, `messages of the one who joined as number ${i + 1}`);
      assert.deepEqual(viewer.state, agent.state, `state of the one who joined as number ${i + 1}`);
      assert.match(viewer.types.at(-1), /^RUN_(FINISHED|ERROR)$/);
    }
    await agrees(agent, name);
  };
  await turn((subscriber) => agent.ask(content, {}, subscriber));
  while (agent.pendingInterrupts?.length) {
    const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: {} }));
    await turn((subscriber) => agent.runAgent({ resume }, subscriber));
  }
};

describe("events", { concurrency: 4 }, () => {
  for (const [name, moves] of Object.entries(scenarios)) {
    test(name, async () => {
      const agent = new Tracked("outer");
      await play(agent, "outer", JSON.stringify({ pauseMs: 3, do: moves }));
      const fails = moves.filter(({ fail }) => fail).map(({ fail }) => fail);
      const failed = () => agent.errors.map(({ message }) => message);
      assert.deepEqual(failed(), fails);
      for (const { type } of moves) assert.ok(!(type in client.EventType) || agent.types.includes(type), `there is a ${type}`);
      await agent.ask(JSON.stringify({ do: [] }));
      assert.deepEqual(failed(), fails, "the next run takes what the client sends back");
      await agrees(agent, "outer");
    });
  }

  test("sub-agents are told apart", async () => {
    const agent = new Tracked("outer");
    const events = [];
    await agent.ask(
      JSON.stringify({ do: scenarios["sub-agents inside sub-agents"] }),
      {},
      { onEvent: ({ event }) => void events.push(event) },
    );
    const started = events.filter(({ type }) => type === (newest ? "SUBAGENT_STARTED" : "STEP_STARTED"));
    if (newest) {
      const [one, two, three, last] = started;
      assert.deepEqual(
        started.map(({ name }) => name),
        ["inner", "outer", "inner", "inner"],
      );
      assert.deepEqual(
        [one, two, three, last].map(({ parentSubagentRunId }) => parentSubagentRunId),
        [undefined, one.subagentRunId, two.subagentRunId, undefined],
      );
      const text = events.find(({ messageId }) => messageId === "three");
      assert.equal(text.subagentRunId, three.subagentRunId);
    } else {
      const names = started.map(({ stepName }) => stepName);
      for (const [step, times] of [
        [/^outer$/, 1], // the step of the run itself
        [/^inner:[0-9a-f-]{36}$/, 3],
        [/^outer:[0-9a-f-]{36}$/, 1],
        [/^two@[0-9a-f-]{36}$/, 2],
      ]) {
        assert.equal(names.filter((name) => step.test(name)).length, times, `${step} of ${names}`);
      }
      assert.ok(events.every((event) => !("subagentRunId" in event)));
    }
  });
});

test("a message of a megabyte, in one delta and in many", async () => {
  const agent = new Tracked("echo");
  const word = "é-".repeat(350_000);
  await play(agent, "echo", word);
  assert.equal(texts(agent).at(-1), word);
  const other = new Tracked("scripted");
  await play(other, "scripted", JSON.stringify({ do: [{ tokens: 64, size: 16384, delayMs: 1 }] }), 25);
  assert.equal(texts(other).at(-1).length, 1 << 20);
});

test("a message of many deltas", async () => {
  const deltas = process.env.BATON_SOAK ? 5000 : 1000;
  const agent = new Tracked("scripted");
  await play(agent, "scripted", JSON.stringify({ do: [{ tokens: deltas }] }), deltas / 4);
  assert.equal(texts(agent).at(-1).length, 4 * deltas);
  assert.equal(agent.types.filter((type) => type === "TEXT_MESSAGE_CONTENT").length, deltas);
});

// The newest client may only complain about unknown types that AG-UI does not have.
after(() => {
  const said = new Set(warnings.map((warning) => warning.replace(/:.*/s, "")));
  assert.deepEqual([...said], newest ? ["[ag-ui][enforce] Dropping unrecognised event 'THEIR_OWN'"] : []);
});
