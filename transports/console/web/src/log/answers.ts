import { isDigits, parse } from "../api/json";
import type { LogEvent } from "../api/types";

/** Answered is the author and time of an answer. */
export interface Answered {
  interruptId: string;
  refused: boolean;
  by: string; // "" if the server answered because the question has expired
  at: string;
}

/** answersIn returns the answers in the RUN_STARTED event of a span. */
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

/** executedWith returns the arguments of a call if they differ from the requested ones, otherwise undefined. said is the result's event or message. */
export function executedWith(said: unknown, asked: string): unknown {
  const { toolAgentOutput, metadata } = (said ?? {}) as { toolAgentOutput?: unknown; metadata?: { toolAgentOutput?: unknown } | null };
  const args = ((toolAgentOutput ?? metadata?.toolAgentOutput) as { tool_call_args?: unknown } | null | undefined)?.tool_call_args;
  if (typeof args !== "object" || args === null) return undefined;
  try {
    return canonical(parse(asked)) === canonical(args) ? undefined : args;
  } catch {
    return undefined; // the requested arguments are not JSON
  }
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, v: unknown) =>
    typeof v === "object" && v !== null && !Array.isArray(v) && !isDigits(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v,
  );
}
