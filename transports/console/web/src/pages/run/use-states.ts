import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { ask } from "../../api/client";
import type { Logged, LogEvent, Run } from "../../api/types";
import { useProject } from "../../app/context";
import { States, type Known } from "../../log/states";

/** useLook returns the state after a change. While a slow one is computed, it returns the previous one. */
export function useLook(states: States, index: number): Known | null {
  const [, again] = useState(0);
  const seen = useRef<{ states: States; known: Known } | null>(null);
  const known = states.look(index);
  if (known) seen.current = { states, known };
  useEffect(() => {
    if (known || index < 0) return;
    const timer = setTimeout(() => again((n) => n + 1), 0);
    return () => clearTimeout(timer);
  });
  return known ?? (seen.current?.states === states ? seen.current.known : null);
}

interface Page {
  data: { event_id: number; event: LogEvent }[];
  page_info: { next: string | null };
}

/** useThreadStates returns the state over all runs of a thread. */
export function useThreadStates(run: Run, enabled: boolean) {
  const project = encodeURIComponent(useProject());
  const thread = encodeURIComponent(run.conversationId);
  return useQuery({
    queryKey: ["states", project, thread, run.lastEvent?.id],
    enabled,
    staleTime: Infinity,
    queryFn: async () => {
      const found: Logged[] = [];
      for (let cursor = ""; ; ) {
        const query = `threadId=${thread}&order=oldest&limit=100${cursor}`;
        const { items, nextCursor } = await ask<{ items: Run[]; nextCursor: string | null }>(`/api/projects/${project}/agent-runs?${query}`);
        for (const { id } of items) found.push(...(await changes(project, thread, id)));
        if (!nextCursor) break;
        cursor = `&cursor=${encodeURIComponent(nextCursor)}`;
      }
      const states = new States();
      states.start({});
      for (const logged of found.sort((a, b) => a.id - b.id)) states.push(logged);
      return states;
    },
  });
}

// Changes of a run under its own name: after an answer, the log continues it under another.
async function changes(project: string, thread: string, runId: string): Promise<Logged[]> {
  const found: Logged[] = [];
  const url = `/api/v1/conversations/${thread}/agent-runs/${encodeURIComponent(runId)}/events`;
  for (let after = ""; ; ) {
    const query = `projectId=${project}&projection=seed&types=STATE_SNAPSHOT,STATE_DELTA&limit=500${after}`;
    const { data, page_info } = await ask<Page>(`${url}?${query}`);
    for (const { event_id, event } of data) found.push({ id: event_id, event: { ...event, runId } });
    if (page_info.next === null) return found;
    after = `&after_event_id=${page_info.next}`;
  }
}
