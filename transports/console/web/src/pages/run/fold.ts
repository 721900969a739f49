import { useRef } from "react";
import type { Logged } from "../../api/types";

/** Row is an event, or a run of events that continue one text: its first event, and the others. */
export interface Row {
  logged: Logged;
  more: Logged[]; // empty for a single event
  open: boolean; // the events of the run follow as rows of their own
}

/**
 * useFolded returns the rows of a list that grows in place. Successive events of one message or call are one row; opened has the first events of
 * those that are open. It reads each event once until opened or the list changes.
 */
export function useFolded(list: Logged[], folds: boolean, opened: ReadonlySet<number>): Row[] {
  const found = useRef<{ rows: Row[]; last: Row | undefined; seen: number; key: unknown[] }>({ rows: [], last: undefined, seen: 0, key: [] });
  const key = [list, folds, opened];
  if (found.current.key.length === 0 || found.current.key.some((k, i) => k !== key[i])) found.current = { rows: [], last: undefined, seen: 0, key };
  const f = found.current;
  for (; f.seen < list.length; f.seen++) {
    const logged = list[f.seen] as Logged;
    if (folds && f.last && continues(f.last.logged, logged)) {
      if (f.last.open && f.last.more.length === 0) f.rows.push(alone(f.last.logged));
      f.last.more.push(logged);
      if (f.last.open) f.rows.push(alone(logged));
      continue;
    }
    f.last = { logged, more: [], open: opened.has(logged.id) };
    f.rows.push(f.last);
  }
  return f.rows;
}

const alone = (logged: Logged): Row => ({ logged, more: [], open: false });

function continues({ event: a }: Logged, { event: b }: Logged): boolean {
  return a.type === b.type && /_(CONTENT|ARGS)$/.test(a.type) && a.messageId === b.messageId && a.toolCallId === b.toolCallId;
}
