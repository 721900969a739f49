import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useProject } from "../app/context";
import { ask } from "./client";
import type { components } from "./schema";
import type { Audited, Role } from "./types";

export type Key = components["schemas"]["Key"];
export type Server = components["schemas"]["Server"];
export type Retention = components["schemas"]["Retention"];

export interface NewKey {
  user: string;
  role: Role;
  name?: string;
  expiresAt?: string;
}

/** useKeysOf returns the API keys of the project, newest first. */
export function useKeysOf() {
  const project = encodeURIComponent(useProject());
  return useInfiniteQuery({
    queryKey: ["keys", project],
    initialPageParam: "",
    queryFn: ({ pageParam }) =>
      ask<{ items: Key[]; nextCursor: string | null }>(`/api/projects/${project}/keys?limit=100${pageParam && `&cursor=${encodeURIComponent(pageParam)}`}`),
    getNextPageParam: (page) => page.nextCursor,
  });
}

/** useMakeKey creates a key. Only this answer contains it. */
export function useMakeKey() {
  return useKeyChange((url, key: NewKey) => ask<Key & { key: string }>(url, { method: "POST", body: JSON.stringify(key) }));
}

export function useRevokeKey() {
  return useKeyChange((url, id: string) => ask<void>(`${url}/${encodeURIComponent(id)}`, { method: "DELETE" }));
}

function useKeyChange<A, R>(change: (url: string, what: A) => Promise<R>) {
  const project = encodeURIComponent(useProject());
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (what: A) => change(`/api/projects/${project}/keys`, what),
    onSettled: () => void queries.invalidateQueries({ queryKey: ["keys"] }),
  });
}

/** useRetention returns the project's retention, and the data that has expired. */
export function useRetention() {
  const project = encodeURIComponent(useProject());
  return useQuery({ queryKey: ["retention", project], queryFn: () => ask<Retention>(`/api/projects/${project}/retention`) });
}

/** useServers returns the living servers of the database, and how they differ. */
export function useServers() {
  const project = encodeURIComponent(useProject());
  return useQuery({
    queryKey: ["servers", project],
    queryFn: () => ask<components["schemas"]["Servers"]>(`/api/v1/servers?projectId=${project}`),
    refetchInterval: 5_000,
  });
}

export interface AuditFilter {
  actor: string;
  action: string;
  user: string; // owner of the thread
  run: string;
  since: string; // times, "" for no limit
  until: string;
}

/** useAudit returns the audit log, newest first. */
export function useAudit(filter: AuditFilter) {
  const project = encodeURIComponent(useProject());
  return useInfiniteQuery({
    queryKey: ["audit", project, filter],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const query = new URLSearchParams({ limit: "100" });
      for (const [name, value] of Object.entries({ ...filter, cursor: pageParam })) if (value) query.set(name, value);
      return ask<{ items: Audited[]; nextCursor: string | null }>(`/api/projects/${project}/audit?${query}`);
    },
    getNextPageParam: (page) => page.nextCursor,
    placeholderData: keepPreviousData,
  });
}
