import { isDigits } from "../../api/json";
import { session } from "../../api/session";
import type { Attachment, RunRequest } from "../../api/types";
import { parsed } from "../../ui/json";
import { command, quoted } from "../run/curl";
import type { Overrides, Setup, Worker } from "./setup";

/** envelope returns the members that all requests of a thread have. */
export function envelope(setup: Setup, worker: Worker, threadId: string): RunRequest {
  const props = parsed(setup.props);
  const state = setup.state === null ? undefined : parsed(setup.state);
  return {
    ...(worker.kind === "agent" ? { agent: worker.name } : { workflowId: worker.name }),
    threadId,
    ...(isObject(state) ? { state: state as RunRequest["state"] } : {}),
    ...(setup.tools.length > 0 ? { tools: setup.tools } : {}),
    ...(setup.context.length > 0 ? { context: setup.context } : {}),
    ...(isObject(props) ? { forwardedProps: props } : {}),
    ...(setup.overrides && worker.kind === "agent" ? { overrides: overridesOf(setup.overrides) } : {}),
    ...(setup.multitask === "enqueue" ? {} : { multitask: setup.multitask }),
  };
}

function overridesOf({ model, system, parameters }: Overrides): RunRequest["overrides"] {
  const set = parsed(parameters);
  return { ...(model.trim() && { model: model.trim() }), ...(system !== null && { system }), ...(isObject(set) && { parameters: set }) };
}

/** said returns a request with a text and files, behind the messages that begin the thread. */
export function said(request: RunRequest, text: string, files: Attachment[], before: unknown[] = []): RunRequest {
  if (before.length > 0) {
    const own = text.trim() === "" && files.length === 0 ? [] : [{ role: "user", content: text, ...(files.length > 0 && { metadata: { attachments: files } }) }];
    return { ...request, messages: [...before, ...own] as unknown as RunRequest["messages"] };
  }
  if (files.length === 0) return text.trim() === "" ? request : { ...request, content: text };
  const message = { role: "user", content: text, metadata: { attachments: files } };
  return { ...request, messages: [message] as unknown as RunRequest["messages"] };
}

/** begins returns the messages that begin a thread, null if they are no array. */
export function begins(setup: Setup): unknown[] | null {
  if (setup.before === null) return [];
  const list = parsed(setup.before);
  return Array.isArray(list) ? list : null;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isDigits(value);
}

/** asCurl returns a request for a terminal, which prints its events as they arrive. project is named unless it is the default. */
export function asCurl(request: RunRequest, project?: string): string {
  const body = quoted(JSON.stringify(project === undefined ? request : { ...request, projectId: project }, null, 2));
  return command("/api/v1/agent/runs", `-N -H 'Content-Type: application/json' -H 'Accept: text/event-stream' -d ${body}`);
}

/** asTypeScript returns a request as code for AG-UI's client. */
export function asTypeScript(request: RunRequest, worker: Worker, project?: string): string {
  const { threadId, content, messages, state, tools, context, forwardedProps } = request;
  const message = { id: "@", ...(messages?.[0] ?? { role: "user", content: content ?? "" }) };
  const options = { ...(tools && { tools }), ...(context && { context }), ...(forwardedProps ? { forwardedProps } : {}) };
  const headers = session.authorization ? "\n  headers: { Authorization: `Bearer ${process.env.BATON_TOKEN}` }," : "";
  const query = project === undefined ? "" : `?projectId=${encodeURIComponent(project)}`;
  return `import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({
  url: ${JSON.stringify(`${location.origin}/api/v1/agui/${encodeURIComponent(worker.name)}${query}`)},
  threadId: ${JSON.stringify(threadId)},${headers}${state ? `\n  initialState: ${indented(state)},` : ""}
});
agent.addMessage(${indented(message, 0).replace('"@"', "crypto.randomUUID()")});
const { result, newMessages } = await agent.runAgent(${indented(options, 0)}, {
  onTextMessageContentEvent: ({ event }) => void process.stdout.write(event.delta),
});
console.log(result, newMessages);
`;
}

function indented(value: unknown, depth = 1): string {
  return JSON.stringify(value, null, 2).replaceAll("\n", `\n${"  ".repeat(depth)}`);
}
