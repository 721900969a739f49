import { isDigits, parse } from "../api/json";
import type { LogEvent } from "../api/types";

/** Answered is who answered a question, and when. */
export interface Answered {
  interruptId: string;
  refused: boolean;
  by: string; // "" for the server, as the time had passed
  at: string;
}

/** answersIn are the answers that a span has taken, as its RUN_STARTED tells them. */
export function answersIn(e: LogEvent): Answered[] {
  const list = (e.input as { resume?: unknown } | undefined)?.resume;
  if (!Array.isArray(list)) return [];
  return list.map((entry: Partial<Entry> | null) => ({
    interruptId: String(entry?.interruptId),
    refused: entry?.status === "cancelled" || entry?.payload?.approved === false,
    by: typeof entry?.metadata?.by?.user === "string" ? entry.metadata.by.user : "",
    at: typeof entry?.metadata?.at === "string" ? entry.metadata.at : "",
  }));
}

interface Entry {
  interruptId: unknown;
  status: unknown;
  payload: { approved?: unknown } | null;
  metadata: { by?: { user?: unknown } | null; at?: unknown } | null;
}

/** executedWith is what a call was made with, undefined where that is what was asked. said is the result's event, or its message. */
export function executedWith(said: unknown, asked: string): unknown {
  const { toolAgentOutput, metadata } = (said ?? {}) as { toolAgentOutput?: unknown; metadata?: { toolAgentOutput?: unknown } | null };
  const args = ((toolAgentOutput ?? metadata?.toolAgentOutput) as { tool_call_args?: unknown } | null | undefined)?.tool_call_args;
  if (typeof args !== "object" || args === null) return undefined;
  try {
    return canonical(parse(asked)) === canonical(args) ? undefined : args;
  } catch {
    return undefined; // what was asked is no JSON: another says nothing
  }
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, v: unknown) =>
    typeof v === "object" && v !== null && !Array.isArray(v) && !isDigits(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v,
  );
}
