import { useEffect, useRef, useState } from "react";
import type { Logged, LogEvent } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { short } from "../../ui/short";

const slice = 4_000; // events per slice, before the page may render

/** useFiltered returns the events of the types (all if none are given) that contain the text. It checks each event once, in slices. */
export function useFiltered(log: RunLog, types: ReadonlySet<string>, text: string): Logged[] {
  const [, render] = useState(0);
  const found = useRef<{ list: Logged[]; seen: number; key: unknown[] }>({ list: [], seen: 0, key: [] });
  const all = types.size === 0 && text === "";
  const key = [log, types, text];
  if (found.current.key.some((k, i) => k !== key[i]) || found.current.key.length === 0) found.current = { list: [], seen: 0, key };
  const f = found.current;
  if (!all) f.seen = look(log, f.list, f.seen, types, text.toLowerCase());
  const behind = !all && f.seen < log.events.length;
  useEffect(() => {
    if (!behind) return;
    const timer = setTimeout(() => render((n) => n + 1), 0);
    return () => clearTimeout(timer);
  });
  return all ? log.events : f.list;
}

function look(log: RunLog, into: Logged[], from: number, types: ReadonlySet<string>, text: string): number {
  const end = Math.min(log.events.length, from + (text ? slice : 50_000));
  for (let i = from; i < end; i++) {
    const logged = log.events[i];
    if (!logged || (types.size > 0 && !types.has(logged.event.type))) continue;
    if (text && !JSON.stringify(logged.event).toLowerCase().includes(text)) continue;
    into.push(logged);
  }
  return end;
}

const hidden = new Set(["type", "threadId", "runId", "agent", "timestamp", "messageId", "toolCallId", "protocolVersion"]);

/** summary returns an event as one line. */
export function summary(event: LogEvent): string {
  if (typeof event.delta === "string") return event.delta.slice(0, 300);
  if (typeof event.content === "string") return event.content.slice(0, 300);
  if (typeof event.stepName === "string") return event.stepName;
  if (typeof event.toolCallName === "string") return event.toolCallName;
  if (typeof event.message === "string") return event.message.slice(0, 300);
  if (typeof event.name === "string") return `${event.name} ${short(event.value)}`;
  const rest = Object.fromEntries(Object.entries(event).filter(([name]) => !hidden.has(name)));
  return Object.keys(rest).length === 0 ? "" : short(rest);
}
