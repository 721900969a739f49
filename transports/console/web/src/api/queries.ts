import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useProject } from "../app/context";
import { api, ask, ok } from "./client";
import { missing } from "./problem";
import type { Limits, Me, Run, Stats, Waiting, Window } from "./types";

/** runURL is where the API has a run, or a part of it. */
export function runURL(project: string, run: { id: string; user?: string }, part = ""): string {
  const user = run.user === undefined ? "" : `?user=${encodeURIComponent(run.user)}`;
  return `/api/projects/${encodeURIComponent(project)}/agent-runs/${encodeURIComponent(run.id)}${part}${user}`;
}

/** How often what may change without a word is asked for again, in milliseconds, while its page is looked at. */
const later = 10_000;

/** who asks the server who the caller is. */
export async function who(): Promise<Me> {
  return ask<Me>("/api/v1/me");
}

/** useRun is a run, looked at anew when it changes. */
export function useRun(runId: string, user?: string, enabled = true) {
  const projectId = useProject();
  return useQuery({
    queryKey: ["run", projectId, runId, user ?? ""],
    enabled,
    queryFn: () => ask<Run>(runURL(projectId, { id: runId, user })),
    refetchInterval: ({ state }) => (!state.data || state.data.status === "RUNNING" ? later : false), // what it has used moves without a word
    retry: (n, error) => !missing(error) && n < 3,
  });
}

/** over reports whether a run has ended. */
export function over(status: Run["status"]): boolean {
  return status === "COMPLETED" || status === "FAILED" || status === "CANCELLED";
}

/** useNodeStates are the states of a run's nodes. */
export function useNodeStates(runId: string, key: unknown, user?: string) {
  const projectId = useProject();
  return useQuery({
    queryKey: ["nodes", projectId, runId, user ?? "", key],
    queryFn: () =>
      ok(api.GET("/api/projects/{projectId}/agent-runs/{runId}/node-states", { params: { path: { projectId, runId }, query: { user } } })),
    placeholderData: keepPreviousData,
  });
}

/** useOffers are the agents and the tools that there are. */
export function useOffers() {
  const projectId = useProject();
  return useQuery({
    queryKey: ["offers", projectId],
    queryFn: () => ok(api.GET("/api/v1/agents")),
    staleTime: later,
  });
}

/** useWorkflows are the workflows that there are. */
export function useWorkflows() {
  const projectId = useProject();
  return useQuery({
    queryKey: ["workflows", projectId],
    queryFn: () => ok(api.GET("/api/v1/workflows")),
    staleTime: later,
  });
}

/** useLimits are what the caller, or a user whom an admin names, and the project may have, and have: live, what they have is asked for again and again. */
export function useLimits(live = true, user = "") {
  const projectId = useProject();
  return useQuery({
    queryKey: ["limits", projectId, user],
    queryFn: () => ask<Limits>(`/api/v1/limits?projectId=${encodeURIComponent(projectId)}${user && `&user=${encodeURIComponent(user)}`}`),
    placeholderData: keepPreviousData,
    refetchInterval: live && later,
  });
}

/** useStats is how the project has fared. */
export function useStats(window: Window) {
  const projectId = useProject();
  return useQuery({
    queryKey: ["stats", projectId, window],
    queryFn: () => ask<Stats>(`/api/projects/${encodeURIComponent(projectId)}/stats?window=${window}`),
    placeholderData: keepPreviousData,
    refetchInterval: 30_000, // the window moves on
    retry: (n, error) => !missing(error) && n < 3,
  });
}

/** useWaiting is what waits for a person, oldest first. */
export function useWaiting() {
  const projectId = useProject();
  return useQuery({
    queryKey: ["waiting", projectId],
    queryFn: () =>
      ask<{ items: Waiting[]; nextCursor: string | null }>(`/api/projects/${encodeURIComponent(projectId)}/interrupts?limit=200`),
    retry: (n, error) => !missing(error) && n < 3,
  });
}
