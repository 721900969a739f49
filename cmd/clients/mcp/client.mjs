// The official client with BATON_URL, and with BATON's command mcp, beside that server and alone.
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { until } from "../until.mjs";

const { BATON, BATON_URL, DATABASE, OTHER } = process.env;
const stdio = (database) => new StdioClientTransport({ command: BATON, args: ["mcp", "--database", database], stderr: "inherit" });
const doors = {
  "streamable HTTP": () => new StreamableHTTPClientTransport(new URL("/mcp", BATON_URL)),
  "stdio, beside the server": () => stdio(DATABASE),
  "stdio, alone": () => stdio(OTHER),
};

for (const [door, transport] of Object.entries(doors)) {
  describe(door, { concurrency: true }, () => {
    const client = new Client({ name: "judge", version: "1" });
    before(async () => {
      await client.connect(transport());
      await client.listTools(); // from now on it validates results
    });
    after(() => client.close());

    const call = async (name, args) => {
      const result = await client.callTool({ name, arguments: args });
      assert.ok(!result.isError, `${name}: ${result.content[0]?.text}`);
      assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
      return result.structuredContent;
    };

    const start = (...ops) => call("start_agent_run", { agent: "scripted", thread_id: randomUUID(), content: JSON.stringify({ do: ops }) });

    const reached = async ({ runId, threadId }, status) => {
      let run;
      await until(status, async () => {
        const { items } = await call("list_agent_runs", { thread_id: threadId });
        run = items.find(({ id }) => id === runId);
        return run.status === status;
      });
      return run;
    };

    // events reads the whole log of a run in pages.
    const events = async ({ conversationId: conversation_id, runId: run_id }, after_event_id = 0, limit = 7) => {
      const list = [];
      for (let next = after_event_id; next !== null;) {
        const page = await call("get_agent_run_events", { conversation_id, run_id, after_event_id: Number(next), limit });
        assert.ok(page.data.length <= limit);
        list.push(...page.data);
        next = page.page_info.next;
      }
      return list;
    };

    const types = (list) => list.map(({ event }) => event.type);

    test("the tools", async () => {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map(({ name }) => name).sort(), [
        "append_agent_message",
        "cancel_agent_run",
        "get_agent_run_events",
        "get_agent_run_snapshot",
        "list_agent_runs",
        "list_agents",
        "resume_agent_run",
        "send_event",
        "start_agent_run",
      ]);
      for (const { description, inputSchema, outputSchema } of tools) assert.ok(description && inputSchema && outputSchema);
      assert.equal(client.getServerVersion().name, "baton");
    });

    test("list_agents", async () => {
      const { agents, workflows } = await call("list_agents");
      assert.ok(agents.some(({ name }) => name === "echo"));
      assert.ok(workflows.some(({ name }) => name === "demo"));
    });

    test("a run and its log", async () => {
      const run = await start(
        { reason: "hm" },
        { say: "hello there" },
        { tool: "calculator", args: { expression: "6*7" } },
        { state: { n: 1 } },
        { progress: 0.5 },
        { tokens: 20 },
      );
      const { outputSummary } = await reached(run, "COMPLETED");
      assert.ok(outputSummary);
      const list = await events(run);
      const ids = list.map(({ event_id }) => event_id);
      assert.deepEqual(
        ids,
        [...new Set(ids)].sort((a, b) => a - b),
      );
      assert.deepEqual([types(list)[0], types(list).at(-1)], ["RUN_STARTED", "RUN_FINISHED"]);
      assert.deepEqual(await events(run, ids[4], 500), list.slice(5));
      const snapshot = await call("get_agent_run_snapshot", { conversation_id: run.conversationId, run_id: run.runId });
      assert.equal(snapshot.after_event_id, ids.at(-1));
      assert.deepEqual(types(snapshot.events), ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    });

    test("a snapshot of a run at work, and what follows it", async () => {
      let run, snapshot, shown;
      for (let delayMs = 5; !shown?.includes("TEXT_MESSAGE_START"); delayMs *= 4) { // a busy server may answer after the run has ended
        run = await start({ say: "first" }, { tokens: 150, delayMs }, { say: "last" });
        do {
          snapshot = await call("get_agent_run_snapshot", { conversation_id: run.conversationId, run_id: run.runId });
          shown = types(snapshot.events);
        } while (!shown.includes("TEXT_MESSAGE_START") && !shown.includes("RUN_FINISHED"));
      }
      await reached(run, "COMPLETED");
      const all = await events(run);
      assert.deepEqual(
        await events(run, snapshot.after_event_id),
        all.filter(({ event_id }) => event_id > snapshot.after_event_id),
      );
    });

    test("append, cancel, and again", async () => {
      const run = await start({ say: "hello" }, { tool: "sleep", args: { ms: 60000 } });
      await reached(run, "RUNNING");
      const message = await call("append_agent_message", { run_id: run.runId, content: "and more", context_item_ids: ["a"] });
      assert.deepEqual([message.role, message.content, message.contextItemIds], ["user", "and more", ["a"]]);
      const cancelled = await call("cancel_agent_run", { run_id: run.runId });
      assert.equal(cancelled.status, "CANCELLED");
      assert.deepEqual(await call("cancel_agent_run", { run_id: run.runId }), cancelled);
      assert.equal(types(await events(run)).at(-1), "RUN_ERROR");
    });

    test("a question", async () => {
      const run = await start({ ask: { message: "Deploy?" } }, { say: "after" });
      const { interrupts } = await reached(run, "WAITING");
      await call("resume_agent_run", {
        run_id: run.runId,
        resume: [{ interruptId: interrupts[0].id, status: "resolved", payload: { ok: true } }],
      });
      await reached(run, "COMPLETED");
      assert.equal(types(await events(run)).filter((type) => type === "RUN_STARTED").length, 2);
    });

    test("a run that fails", async () => {
      const run = await start({ fail: "boom" });
      assert.equal((await reached(run, "FAILED")).error.message, "boom");
      assert.equal(types(await events(run)).at(-1), "RUN_ERROR");
    });

    test("mistakes are told", async () => {
      for (const [name, args, said] of [
        ["start_agent_run", { agent: "nobody", content: "hello" }, /no agent/],
        ["start_agent_run", { agnet: "echo" }, /agnet/],
        ["get_agent_run_events", { conversation_id: randomUUID(), run_id: "x" }, /\w+ \w+/],
        ["cancel_agent_run", {}, /run_id/],
      ]) {
        const { isError, content } = await client
          .callTool({ name, arguments: args })
          .catch(({ message }) => ({ isError: true, content: [{ text: message }] }));
        assert.ok(isError, `${name} ${JSON.stringify(args)}`);
        assert.match(content[0].text, said);
      }
    });
  });
}
