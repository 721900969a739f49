// CopilotKit's front end core against BATON_URL as its runtime, over each of its transports.
import { after, describe, test } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { until } from "../until.mjs";

globalThis.window = globalThis; // outside a browser it does not connect
const {
  CopilotKitCore,
  ɵcreateThreadStore: createThreadStore,
  ɵselectThreads: selectThreads,
  ɵselectThreadsError: selectThreadsError,
} = await import("@copilotkit/core");

const runtimeUrl = process.env.BATON_URL + "/api/copilotkit";
const warnings = [];
console.warn = (...args) => warnings.push(args.join(" "));

const status = async (threadId) => {
  const response = await fetch(`${process.env.BATON_URL}/api/projects/default/agent-runs?threadId=${threadId}`);
  return (await response.json()).items?.[0]?.status;
};

for (const runtimeTransport of ["rest", "single", "auto"]) {
  describe(runtimeTransport, { concurrency: true }, () => {
    const connected = async () => {
      const core = new CopilotKitCore({ runtimeUrl, runtimeTransport });
      const errors = [];
      core.subscribe({ onError: ({ code, error }) => void errors.push(`${code}: ${error.message}`) });
      core.connectRuntime?.();
      await until("connected", () => core.runtimeConnectionStatus === "connected");
      return { core, errors };
    };

    // A conversation with an agent; without a threadId it is a new one.
    const open = ({ core }, name, threadId = randomUUID()) => {
      const agent = core.getAgent(name).clone();
      agent.threadId = threadId;
      return agent;
    };

    const say = (core, agent, content) => {
      agent.addMessage({ id: randomUUID(), role: "user", content });
      return core.runAgent({ agent });
    };
    const script = (core, agent, ...ops) => say(core, agent, JSON.stringify({ do: ops }));
    const contents = ({ messages }) => messages.map(({ content }) => content);

    // The thread equals a newly loaded page, which has more members of results than the page that sent them.
    const reloads = async (agent, name) => {
      const page = await connected();
      const again = open(page, name, agent.threadId);
      await page.core.connectAgent({ agent: again });
      const plain = ({ metadata, ...message }) => message;
      assert.deepEqual(again.messages.map(plain), agent.messages.map(plain));
      assert.deepEqual(again.state, agent.state);
      assert.deepEqual(page.errors, []);
    };

    test("info", async () => {
      const { core, errors } = await connected();
      for (const name of ["echo", "scripted", "demo"]) assert.equal(core.getAgent(name)?.agentId, name);
      assert.match(core.getAgent("echo").description, /\w/);
      assert.match(core.runtimeVersion, /^\d/);
      assert.deepEqual(errors, []);
    });

    test("run, again, and reload", async () => {
      const page = await connected();
      const agent = open(page, "echo");
      await say(page.core, agent, "hello there");
      await say(page.core, agent, "and again");
      assert.deepEqual(contents(agent), ["hello there", "hello there", "and again", "and again"]);
      assert.deepEqual(page.errors, []);
      await reloads(agent, "echo");
    });

    test("reload in the middle of a run", async () => {
      const page = await connected();
      const agent = open(page, "scripted");
      const running = script(
        page.core,
        agent,
        { reason: "hm" },
        { say: "first" },
        { tokens: 100, delayMs: 5 },
        { state: { n: 1 } },
        { say: "last" },
      );
      await until("writing", () => contents(agent).includes("first"));
      await Promise.all([
        running,
        until("writing", () => contents(agent).length > 3).then(async () => {
          const other = await connected();
          const again = open(other, "scripted", agent.threadId);
          await other.core.connectAgent({ agent: again });
          await running;
          assert.deepEqual(again.messages, agent.messages);
          assert.deepEqual(again.state, { n: 1 });
          assert.deepEqual(other.errors, []);
        }),
      ]);
      await reloads(agent, "scripted");
    });

    test("a thread that is new", async () => {
      const page = await connected();
      const agent = open(page, "echo");
      await page.core.connectAgent({ agent });
      assert.deepEqual(agent.messages, []);
      await say(page.core, agent, "hello");
      assert.deepEqual(contents(agent), ["hello", "hello"]);
      assert.deepEqual(page.errors, []);
    });

    test("stop", async () => {
      const page = await connected();
      const agent = open(page, "scripted");
      const running = script(page.core, agent, { say: "so far" }, { tool: "sleep", args: { ms: 60000 } });
      await until("in the tool", () => agent.messages.some(({ toolCalls }) => toolCalls));
      page.core.stopAgent({ agent });
      await running;
      assert.equal(await status(agent.threadId), "CANCELLED");
      await say(page.core, agent, "next");
      assert.equal(contents(agent).at(-1), "next");
      await reloads(agent, "scripted");
    });

    test("frontend tools are called and followed up", async () => {
      const page = await connected();
      const picked = [];
      page.core.addTool({
        name: "pick",
        description: "Pick one.",
        parameters: z.object({ of: z.array(z.number()) }),
        handler: async (args) => (picked.push(args), "the second"),
      });
      const agent = open(page, "scripted");
      await script(page.core, agent, { say: "choose" }, { tool: "pick", args: { of: [1, 2] } }, { say: "thanks" });
      assert.deepEqual(picked, [{ of: [1, 2] }]);
      assert.equal(contents(agent).at(-1), "thanks");
      assert.deepEqual(page.errors, []);
      await reloads(agent, "scripted");
    });

    test("errors", async () => {
      const page = await connected();
      const agent = open(page, "scripted");
      await script(page.core, agent, { say: "so far" }, { fail: "boom" });
      assert.deepEqual(page.errors, ["agent_run_error_event: boom"]);
    });

    test("threads", async () => {
      const page = await connected();
      const threads = [];
      for (const words of ["one", "two"]) {
        const agent = open(page, "echo");
        await say(page.core, agent, words);
        threads.unshift(agent.threadId);
      }
      const store = createThreadStore({ fetch });
      store.start();
      store.setContext({ runtimeUrl, headers: {}, agentId: "echo", limit: 100 });
      await until("listed", () => selectThreadsError(store.getState()) || selectThreads(store.getState()).length > 1);
      assert.equal(selectThreadsError(store.getState()), null);
      const listed = selectThreads(store.getState());
      assert.deepEqual(
        listed.map(({ id }) => id).filter((id) => threads.includes(id)),
        threads,
      );
      const sortsAsText = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
      for (const { agentId, name, createdAt, updatedAt } of listed) {
        assert.deepEqual([agentId, name], ["echo", null]);
        assert.match(createdAt, sortsAsText);
        assert.match(updatedAt, sortsAsText);
      }
      store.stop();
    });
  });
}

after(() => assert.deepEqual([...new Set(warnings)], []));
