import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { ask } from "../../api/client";
import type { LogEvent, Run } from "../../api/types";
import { useProject } from "../../app/context";
import type { RunLog } from "../../log/runlog";

/**
 * useBase finds the thread's state before a run with a log that begins with a change of it: the final state of the run before. A thread
 * executes one run at a time and numbers events without gaps, so a gap shows that the run before was deleted and its state is unknown.
 */
export function useBase(run: Run, log: RunLog) {
  const project = useProject();
  const { transcript } = log;
  const first = log.events[0]?.id ?? 1;
  const wanted = log.complete && !transcript.states.based && transcript.states.length > 0;
  const { data } = useQuery({
    queryKey: ["base", project, run.conversationId, run.id],
    enabled: wanted,
    staleTime: Infinity,
    queryFn: async (): Promise<{ state: unknown } | null> => {
      if (first === 1) return { state: {} };
      const [p, conversation] = [project, run.conversationId].map(encodeURIComponent);
      const query = `threadId=${conversation}&until=${encodeURIComponent(run.createdAt)}&limit=5`;
      const { items } = await ask<{ items: Run[] }>(`/api/projects/${p}/agent-runs?${query}`);
      const before = items.find((r) => r.id !== run.id && r.startedAt !== null);
      if (!before) return null;
      const path = `/api/v1/conversations/${conversation}/agent-runs/${encodeURIComponent(before.id)}/snapshot?projectId=${p}`;
      const snapshot = await ask<{ after_event_id: number; events: { event: LogEvent }[] }>(path);
      if (snapshot.after_event_id < first - 1) return null;
      return { state: snapshot.events.find(({ event }) => event.type === "STATE_SNAPSHOT")?.event.snapshot ?? {} };
    },
  });
  useEffect(() => {
    if (data && wanted) log.begin(data.state);
  }, [data, wanted, log]);
}
