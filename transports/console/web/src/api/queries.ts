import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useProject } from "../app/context";
import { api, ask, ok } from "./client";
import { missing } from "./problem";
import type { Limits, Me, Run, Stats, Waiting, Window } from "./types";

/** runURL returns the API path of a run, or of a part of it. */
export function runURL(project: string, run: { id: string; user?: string }, part = ""): string {
  const user = run.user === undefined ? "" : `?user=${encodeURIComponent(run.user)}`;
  return `/api/projects/${encodeURIComponent(project)}/agent-runs/${encodeURIComponent(run.id)}${part}${user}`;
}

/** Interval in milliseconds for requesting data again that changes without notice, while its page is visible. */
const later = 10_000;

/** who requests the caller's identity. */
export async function who(): Promise<Me> {
  return ask<Me>("/api/v1/me");
}

/** useRun returns a run and follows its changes. */
export function useRun(runId: string, user?: string, enabled = true) {
  const projectId = useProject();
  return useQuery({
    queryKey: ["run", projectId, runId, user ?? ""],
    enabled,
    queryFn: () => ask<Run>(runURL(projectId, { id: runId, user })),
    refetchInterval: ({ state }) => (!state.data || state.data.status === "RUNNING" ? later : false), // usage changes without notice
    retry: (n, error) => !missing(error) && n < 3,
  });
}

/** useReruns returns the runs that repeat a run, latest first. */
export function useReruns(runId: string) {
  const project = encodeURIComponent(useProject());
  return useQuery({
    queryKey: ["runs", "reruns", project, runId],
    queryFn: () => ask<{ items: Run[] }>(`/api/projects/${project}/agent-runs?limit=20&metadata.rerunOf=${encodeURIComponent(runId)}`).then(({ items }) => items),
    staleTime: later,
  });
}

export function over(status: Run["status"]): boolean {
  return status === "COMPLETED" || status === "FAILED" || status === "CANCELLED";
}

/** useNodeStates returns the states of a run's nodes. */
export function useNodeStates(runId: string, key: unknown, user?: string) {
  const projectId = useProject();
  return useQuery({
    queryKey: ["nodes", projectId, runId, user ?? "", key],
    queryFn: () =>
      ok(api.GET("/api/projects/{projectId}/agent-runs/{runId}/node-states", { params: { path: { projectId, runId }, query: { user } } })),
    placeholderData: keepPreviousData,
  });
}

/** useOffers returns the agents and tools. */
export function useOffers() {
  const projectId = useProject();
  return useQuery({
    queryKey: ["offers", projectId],
    queryFn: () => ok(api.GET("/api/v1/agents")),
    staleTime: later,
  });
}

/** useWorkflows returns the workflows. */
export function useWorkflows() {
  const projectId = useProject();
  return useQuery({
    queryKey: ["workflows", projectId],
    queryFn: () => ok(api.GET("/api/v1/workflows")),
    staleTime: later,
  });
}

/** useLimits returns limits and their use, of the caller, or of a user for admins, and of the project. With live it requests the use repeatedly. */
export function useLimits(live = true, user = "") {
  const projectId = useProject();
  return useQuery({
    queryKey: ["limits", projectId, user],
    queryFn: () => ask<Limits>(`/api/v1/limits?projectId=${encodeURIComponent(projectId)}${user && `&user=${encodeURIComponent(user)}`}`),
    placeholderData: keepPreviousData,
    refetchInterval: live && later,
  });
}

/** useStats returns the statistics of the project. */
export function useStats(window: Window) {
  const projectId = useProject();
  return useQuery({
    queryKey: ["stats", projectId, window],
    queryFn: () => ask<Stats>(`/api/projects/${encodeURIComponent(projectId)}/stats?window=${window}`),
    placeholderData: keepPreviousData,
    refetchInterval: 30_000, // the window moves
    retry: (n, error) => !missing(error) && n < 3,
  });
}

/** useWaiting returns the open questions, oldest first. */
export function useWaiting() {
  const projectId = useProject();
  return useQuery({
    queryKey: ["waiting", projectId],
    queryFn: () =>
      ask<{ items: Waiting[]; nextCursor: string | null }>(`/api/projects/${encodeURIComponent(projectId)}/interrupts?limit=200`),
    retry: (n, error) => !missing(error) && n < 3,
  });
}
