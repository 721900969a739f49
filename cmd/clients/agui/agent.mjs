import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { client } from "./client.mjs";

export const base = process.env.BATON_URL;

// Tracked is HttpAgent with the types of its events.
export class Tracked extends client.HttpAgent {
  types = [];
  errors = [];
  own = new Set(); // ids of the messages added here
  constructor(name, more = {}) {
    super({ url: `${base}/api/v1/agui/${name}`, threadId: randomUUID(), ...more });
    this.subscribe({
      onEvent: ({ event }) => void this.types.push(event.type),
      onRunErrorEvent: ({ event }) => void this.errors.push(event),
    });
  }
  add(message) {
    const id = randomUUID();
    this.own.add(id);
    this.addMessage({ id, ...message });
  }
  ask(content, parameters, subscriber) {
    this.add({ role: "user", content });
    return this.runAgent(parameters, subscriber);
  }
  script(...ops) {
    return this.ask(JSON.stringify({ do: ops }));
  }
}

// Viewer joins a thread and does not run on it.
class Viewer extends Tracked {
  constructor(name, threadId) {
    super(name + "/connect", { threadId });
  }
  connect(input) {
    return this.run(input);
  }
}

export const connected = async (name, threadId) => {
  const viewer = new Viewer(name, threadId);
  await viewer.connectAgent();
  return viewer;
};

export const get = async (path) => {
  const response = await fetch(base + path);
  assert.equal(response.status, 200, `GET ${path}: ${await response.clone().text()}`);
  return response.json();
};

export const runsOf = (agent) =>
  get(`/api/projects/default/agent-runs?threadId=${encodeURIComponent(agent.threadId)}`).then(({ items }) => items);
export const status = async (agent) => (await runsOf(agent))[0]?.status;

// A message in the form of the history: parts as their text, and developer messages as system messages.
export const brief = ({ id, role, content, toolCalls }) => ({
  id,
  role: role === "developer" ? "system" : role,
  content: Array.isArray(content) ? content.flatMap(({ text }) => text ?? []).join("\n") : (content ?? ""),
  ...(toolCalls?.length && { toolCalls: toolCalls.map(({ id, type, function: f }) => ({ id, type, function: f })) }),
});
const shown = ({ role }) => role !== "reasoning" && role !== "activity";
export const texts = ({ messages }) => messages.filter(({ role }) => role === "assistant").map(({ content }) => content);

// The thread's history, day by day.
const historyOf = async ({ threadId }) => {
  const list = [];
  for (let before = ""; ;) {
    const { snapshot } = await get(`/api/v1/agent/history?threadId=${encodeURIComponent(threadId)}${before}`);
    list.unshift(...snapshot.messages.map(({ metadata, ...message }) => brief({ ...message, toolCalls: metadata?.toolCalls })));
    if (!snapshot.hasMore) return list;
    before = `&before=${snapshot.day}`;
  }
};

// The client's copy equals the thread: the events for a client that joins now, and the history. The server has more members of a
// result than the client that sent it, and the history has results at their place of arrival.
export const agrees = async (agent, name) => {
  const viewer = await connected(name, agent.threadId);
  const plain = ({ metadata, ...message }) => message;
  assert.deepEqual(
    agent.messages,
    viewer.messages.map((message) => (agent.own.has(message.id) ? plain(message) : message)),
    "messages of a client that joins now",
  );
  assert.deepEqual(agent.state, viewer.state, "state of a client that joins now");

  const history = await historyOf(agent);
  const messages = agent.messages.filter(shown).map(brief);
  const isResult = ({ role }) => role === "tool";
  const byID = (a, b) => (a.id < b.id ? -1 : 1);
  assert.deepEqual(
    messages.filter((m) => !isResult(m)),
    history.filter((m) => !isResult(m)),
    "messages and history",
  );
  assert.deepEqual(messages.filter(isResult).sort(byID), history.filter(isResult).sort(byID), "results and history");
};
