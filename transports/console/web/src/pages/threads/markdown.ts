import { ask } from "../../api/client";
import type { Day } from "../../api/threads";
import type { Thread } from "../../api/types";
import { plainText } from "../../ui/message";

const most = 366; // days

/** markdownOf returns a thread as Markdown, oldest message first. */
export async function markdownOf(project: string, thread: Thread, name: string): Promise<Blob> {
  const days: string[] = [];
  const query = new URLSearchParams({ projectId: project, threadId: thread.conversationId });
  for (let n = 0; n < most; n++) {
    const { snapshot } = await ask<{ snapshot: Day }>(`/api/v1/agent/history?${query}`);
    if (snapshot.day) days.unshift([`## ${snapshot.day}`, ...snapshot.messages.map(said)].filter(Boolean).join("\n\n"));
    if (!snapshot.hasMore || !snapshot.day) break;
    query.set("before", snapshot.day);
  }
  return new Blob([[`# ${name}`, ...days].join("\n\n"), "\n"], { type: "text/markdown" });
}

// A message with its calls. A call's arguments and a result are code, in a fence that is longer than any in them.
function said(m: Day["messages"][number]): string {
  const text = plainText(m.content ?? "");
  const calls = callsOf(m).map((c) => `Calls \`${c.function.name}\`:\n\n${code(c.function.arguments)}`);
  return [`**${m.name ?? m.role}**`, m.role === "tool" ? code(text) : text, ...calls].filter(Boolean).join("\n\n");
}

// The history has the calls of a message in its metadata.
function callsOf(m: Day["messages"][number]): NonNullable<Day["messages"][number]["toolCalls"]> {
  const { toolCalls } = (m.metadata ?? {}) as { toolCalls?: unknown };
  return m.toolCalls ?? (Array.isArray(toolCalls) ? toolCalls : []);
}

function code(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}
