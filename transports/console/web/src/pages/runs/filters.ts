import { useLocation } from "wouter";
import { useSearch } from "../../app/address";
import type { Status } from "../../api/types";
import { statuses } from "../../ui/status";

/** Filters of the list of runs. They are in the address, so that a list can be bookmarked and shared. */
export interface Filters {
  status: Status[];
  agent: string;
  workflow: string;
  thread: string;
  user: string;
  since: string; // a time, or an age: "1h", "24h", "7d"
  until: string;
  text: string;
  tag: string; // one, or several with commas
}

const names = { agent: "agent", workflow: "workflow", thread: "thread", user: "user", since: "since", until: "until", text: "q", tag: "tag" } as const;

/** useFilters reads and changes the filters in the address. */
export function useFilters(): [Filters, (change: Partial<Filters>) => void] {
  const [path, go] = useLocation();
  const query = new URLSearchParams(useSearch());
  const read = (name: string) => query.get(name) ?? "";
  const wanted = read("status").split(",");
  const filters: Filters = {
    status: statuses.filter((s) => wanted.includes(s.toLowerCase())),
    agent: read("agent"), workflow: read("workflow"), thread: read("thread"), user: read("user"),
    since: read("since"), until: read("until"), text: read("q"), tag: read("tag"),
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

/** asked converts the filters to the API's. */
export function asked(f: Filters, now = Date.now()): URLSearchParams {
  const to = new URLSearchParams();
  for (const s of f.status) to.append("status", s);
  if (f.agent) to.set("agent", f.agent);
  if (f.workflow) to.set("workflowId", f.workflow);
  if (f.thread) to.set("threadId", f.thread);
  if (f.user) to.set("user", f.user);
  if (f.text) to.set("q", f.text);
  if (f.tag) to.set("tag", f.tag);
  const since = moment(f.since, now);
  const until = moment(f.until, now);
  if (since) to.set("since", since);
  if (until) to.set("until", until);
  return to;
}

const units: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

// Whole minutes: a start that changes with each request would make each a different list.
function moment(text: string, now: number): string {
  const past = /^(\d{1,4})([mhd])$/.exec(text);
  if (past) return new Date(Math.floor((now - Number(past[1]) * (units[past[2] ?? "m"] ?? 0)) / 60_000) * 60_000).toISOString();
  const at = new Date(text);
  return text && !Number.isNaN(at.getTime()) ? at.toISOString() : "";
}

/** count returns the number of active filters. */
export const count = (f: Filters) => (f.status.length > 0 ? 1 : 0) + Object.keys(names).filter((k) => f[k as keyof typeof names]).length;
