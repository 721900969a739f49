import { useLocation } from "wouter";
import { useSearch } from "../../app/address";
import type { Status } from "../../api/types";
import { statuses } from "../../ui/status";

/** Filters are which runs are listed. They stand in the address, so that a list can be kept and sent. */
export interface Filters {
  status: Status[];
  agent: string;
  workflow: string;
  thread: string;
  user: string;
  since: string; // a time, or how long ago: "1h", "24h", "7d"
  until: string;
  text: string;
}

const names = { agent: "agent", workflow: "workflow", thread: "thread", user: "user", since: "since", until: "until", text: "q" } as const;

/** useFilters reads the filters from the address, and changes them there. */
export function useFilters(): [Filters, (change: Partial<Filters>) => void] {
  const [path, go] = useLocation();
  const query = new URLSearchParams(useSearch());
  const read = (name: string) => query.get(name) ?? "";
  const wanted = read("status").split(",");
  const filters: Filters = {
    status: statuses.filter((s) => wanted.includes(s.toLowerCase())),
    agent: read("agent"), workflow: read("workflow"), thread: read("thread"), user: read("user"),
    since: read("since"), until: read("until"), text: read("q"),
  };
  const change = (what: Partial<Filters>) => {
    const next = { ...filters, ...what };
    const to = new URLSearchParams();
    if (next.status.length > 0) to.set("status", next.status.map((s) => s.toLowerCase()).join(","));
    for (const [key, name] of Object.entries(names)) {
      const value = next[key as keyof typeof names];
      if (value) to.set(name, value);
    }
    const text = to.toString();
    go(text ? `${path}?${text}` : path, { replace: true });
  };
  return [filters, change];
}

/** asked are the filters as the API has them. */
export function asked(f: Filters, now = Date.now()): URLSearchParams {
  const to = new URLSearchParams();
  for (const s of f.status) to.append("status", s);
  if (f.agent) to.set("agent", f.agent);
  if (f.workflow) to.set("workflowId", f.workflow);
  if (f.thread) to.set("threadId", f.thread);
  if (f.user) to.set("user", f.user);
  if (f.text) to.set("q", f.text);
  const since = moment(f.since, now);
  const until = moment(f.until, now);
  if (since) to.set("since", since);
  if (until) to.set("until", until);
  return to;
}

const units: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

// Whole minutes: a list whose beginning moved with each request would be another list each time.
function moment(text: string, now: number): string {
  const past = /^(\d{1,4})([mhd])$/.exec(text);
  if (past) return new Date(Math.floor((now - Number(past[1]) * (units[past[2] ?? "m"] ?? 0)) / 60_000) * 60_000).toISOString();
  const at = new Date(text);
  return text && !Number.isNaN(at.getTime()) ? at.toISOString() : "";
}

/** count is how many filters are set. */
export const count = (f: Filters) => (f.status.length > 0 ? 1 : 0) + Object.keys(names).filter((k) => f[k as keyof typeof names]).length;
