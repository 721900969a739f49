// An AG-UI server as TanStack AI's users build it: chat() with a tool of the server's, the client's tools, and a local model.
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { chat, chatParamsFromRequestBody, EventType, mergeAgentTools, toServerSentEventsResponse, toolDefinition } from "@tanstack/ai";

const textOf = (content) => (typeof content === "string" ? content : content.map((part) => part.content ?? part.text ?? "").join(""));

// The model calls the tool that the last message names, and repeats the tool's result.
const adapter = {
  kind: "text",
  name: "made-here",
  model: "model",
  async *chatStream({ messages, runId, threadId }) {
    const run = { runId, threadId, timestamp: Date.now() };
    const last = messages.at(-1);
    const text = textOf(last.content);
    const [, name, args] = (last.role === "user" && text.match(/^call (\w+) (.*)$/)) || [];
    const id = `${name ?? "text"}-${messages.length}`;
    yield { type: EventType.RUN_STARTED, ...run };
    if (name) {
      yield { type: EventType.TOOL_CALL_START, toolCallId: id, toolCallName: name, toolName: name, ...run };
      yield { type: EventType.TOOL_CALL_ARGS, toolCallId: id, delta: args, ...run };
      yield { type: EventType.TOOL_CALL_END, toolCallId: id, toolCallName: name, toolName: name, input: JSON.parse(args), ...run };
    } else {
      const said = last.role === "tool" ? `it gave ${text}` : `you said ${text}`;
      yield { type: EventType.TEXT_MESSAGE_START, messageId: id, role: "assistant", ...run };
      for (const delta of said.split(/(?<= )/)) yield { type: EventType.TEXT_MESSAGE_CONTENT, messageId: id, delta, ...run };
      yield { type: EventType.TEXT_MESSAGE_END, messageId: id, ...run };
    }
    yield { type: EventType.RUN_FINISHED, finishReason: name ? "tool_calls" : "stop", ...run };
  },
};

const schema = (properties) => ({ type: "object", properties, required: Object.keys(properties) });
const double = toolDefinition({ name: "double", description: "Doubles a number", inputSchema: schema({ n: { type: "number" } }) }).server(async ({ n }) => ({ doubled: 2 * n }));
const deploy = toolDefinition({ name: "deploy", description: "Deploys", inputSchema: schema({ to: { type: "string" } }), needsApproval: true }).server(async ({ to }) => `deployed ${to}`);

createServer(async (req, res) => {
  let body = "";
  for await (const piece of req) body += piece;
  try {
    const params = await chatParamsFromRequestBody(JSON.parse(body));
    const { messages, threadId, runId, parentRunId, resume } = params;
    const stream = chat({ adapter, messages, threadId, runId, parentRunId, resume, tools: mergeAgentTools([double, deploy], params.tools) });
    const answer = toServerSentEventsResponse(stream);
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    Readable.fromWeb(answer.body).pipe(res);
  } catch (error) {
    res.writeHead(400, { "content-type": "text/plain" }).end(String(error?.message ?? error));
  }
}).listen(Number(process.env.PORT), "127.0.0.1");
