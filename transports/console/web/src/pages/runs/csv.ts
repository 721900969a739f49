import { ask } from "../../api/client";
import type { Run } from "../../api/types";
import { asked, type Filters } from "./filters";

const most = 10_000; // rows

const columns: [string, (r: Run) => unknown][] = [
  ["id", (r) => r.id],
  ["status", (r) => r.status],
  ["agent", (r) => r.workflowId],
  ["user", (r) => r.user],
  ["threadId", (r) => r.threadId],
  ["createdAt", (r) => r.createdAt],
  ["startedAt", (r) => r.startedAt],
  ["finishedAt", (r) => r.finishedAt],
  ["inputTokens", (r) => r.inputTokens],
  ["outputTokens", (r) => r.outputTokens],
  ["cost", (r) => r.cost],
  ["errorCode", (r) => r.error?.code],
  ["error", (r) => r.error?.message],
  ["input", (r) => r.inputQuery],
];

/** csvOf returns the filtered runs, the latest 10 000 of them, as CSV. */
export async function csvOf(project: string, filters: Filters): Promise<Blob> {
  const lines = [columns.map(([name]) => name).join(",")];
  const query = asked(filters);
  query.set("limit", "500");
  for (let cursor: string | null = ""; cursor !== null && lines.length <= most; ) {
    if (cursor) query.set("cursor", cursor);
    const page: { items: Run[]; nextCursor: string | null } = await ask(`/api/projects/${encodeURIComponent(project)}/agent-runs?${query}`);
    for (const run of page.items) lines.push(columns.map(([, value]) => cell(value(run))).join(","));
    cursor = page.nextCursor;
  }
  return new Blob([lines.slice(0, most + 1).join("\r\n"), "\r\n"], { type: "text/csv" });
}

// A text that a spreadsheet would take for a formula begins with an apostrophe.
function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
