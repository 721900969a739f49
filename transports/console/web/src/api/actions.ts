import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useProject } from "../app/context";
import { toast } from "../ui/toast";
import { ask } from "./client";
import { say } from "./problem";
import type { Run, RunRequest } from "./types";

type Which = Pick<Run, "id" | "user">;

/** runURL is where the API has a run, or a part of it. */
export function runURL(project: string, run: Which, part = ""): string {
  const user = run.user === undefined ? "" : `?user=${encodeURIComponent(run.user)}`;
  return `/api/projects/${encodeURIComponent(project)}/agent-runs/${encodeURIComponent(run.id)}${part}${user}`;
}

/** useCancel cancels a run. */
export function useCancel() {
  return useChange((project, run: Which) => ask(runURL(project, run, "/cancel"), { method: "POST" }));
}

/** useDelete removes a run that is over, with its events. */
export function useDelete() {
  return useChange((project, run: Which) => ask(runURL(project, run), { method: "DELETE" }));
}

/** useAppend says something to a run: one that is over starts again. */
export function useAppend() {
  return useChange((project, { run, content }: { run: Which; content: string }) =>
    ask(runURL(project, run, "/messages"), { method: "POST", body: JSON.stringify({ content }) }),
  );
}

export interface Started {
  threadId: string;
  runId: string;
  conversationId: string;
}

/** useStart starts a run that only cancel ends. */
export function useStart() {
  return useChange((projectId, body: RunRequest) =>
    ask<Started>("/api/v1/agent/runs", { method: "POST", body: JSON.stringify({ ...body, projectId }) }),
  );
}

function useChange<A, R>(change: (project: string, what: A) => Promise<R>) {
  const project = useProject();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (what: A) => change(project, what),
    onError: (error) => toast(say(error), "bad"),
    onSettled: () => {
      for (const key of ["run", "runs", "waiting", "threads"]) void queries.invalidateQueries({ queryKey: [key] });
    },
  });
}
