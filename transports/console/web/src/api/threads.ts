import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useProject } from "../app/context";
import { toast } from "../ui/toast";
import { ask, begin } from "./client";
import { missing, say } from "./problem";
import { over } from "./queries";
import type { Attachment, Run, RunRequest, Thread, ThreadMessage, ThreadMessages } from "./types";

/** useThreadRuns are the latest runs of a thread, latest first. turns is anything that changes when one begins or ends. */
export function useThreadRuns(threadId: string, exists: boolean, turns: string) {
  const project = encodeURIComponent(useProject());
  const queries = useQueryClient();
  const key = ["runs", "thread", project, threadId];
  const found = useQuery({
    queryKey: key,
    enabled: exists,
    queryFn: () =>
      ask<{ items: Run[] }>(`/api/projects/${project}/agent-runs?limit=50&threadId=${encodeURIComponent(threadId)}`)
        .then(({ items }) => items)
        .catch((error: unknown) => (missing(error) ? [] : Promise.reject(error))),
    refetchInterval: ({ state }) => (state.data?.some((r) => !over(r.status)) ? 2_000 : 10_000),
  });
  useEffect(() => {
    if (exists) void queries.invalidateQueries({ queryKey: ["runs", "thread", project, threadId] });
  }, [queries, project, threadId, exists, turns]);
  return found.data ?? [];
}

/** upload stores a file that a message may refer to. */
export function upload(project: string, file: File): Promise<Attachment> {
  const form = new FormData();
  form.append("file", file);
  return ask<Attachment>(`/api/v1/agent/attachments?projectId=${encodeURIComponent(project)}`, { method: "POST", body: form });
}

/** useSigned is a URL that opens an attachment without a credential, for some minutes. */
export function useSigned({ bucket, path }: Attachment) {
  return useQuery({
    queryKey: ["attachment", bucket, path],
    queryFn: () =>
      ask<{ url: string }>(`/api/v1/agent/attachments/signed-url?bucket=${encodeURIComponent(bucket)}&path=${encodeURIComponent(path)}`),
    staleTime: 10 * 60_000,
    refetchOnWindowFocus: false,
  });
}

/**
 * edit says something else in the place of one of a thread's messages: what followed it is hidden, and what is said stands under its
 * id. It goes through AG-UI's door, as a message without one before it can be edited there alone; the run is nobody's connection's.
 */
export async function edit(project: string, what: string, request: RunRequest, messageId: string, content: unknown): Promise<void> {
  const query = `projectId=${encodeURIComponent(project)}`;
  const thread = encodeURIComponent(request.threadId ?? "");
  const { messages } = await ask<ThreadMessages>(`/api/v1/threads/${thread}/messages?${query}`);
  const at = messages.findIndex((m) => m.id === messageId);
  if (at < 0) throw new Error("The thread does not show this message any more.");
  const said = { ...(messages[at] as ThreadMessage), content };
  await begin(`/api/v1/agui/${encodeURIComponent(what)}?${query}`, {
    ...request,
    messages: [...messages.slice(0, at), said],
    forwardedProps: { ...(request.forwardedProps as object | undefined), background: true },
  });
}

export interface ThreadFilter {
  q: string;
  user: string;
  archived: boolean;
}

/** useThreads are threads in pages, those with the latest activity first. */
export function useThreads({ q, user, archived }: ThreadFilter) {
  const projectId = useProject();
  return useInfiniteQuery({
    queryKey: ["threads", projectId, q, user, archived],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const query = new URLSearchParams({ projectId, limit: "50", archived: String(archived) });
      for (const [name, value] of Object.entries({ q, user, cursor: pageParam })) if (value) query.set(name, value);
      return ask<{ items: Listed[]; nextCursor: string | null }>(`/api/v1/threads?${query}`);
    },
    getNextPageParam: (page) => page.nextCursor,
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
  });
}

/** Listed is a thread, and whose it is where others' are shown. */
export type Listed = Thread & { user?: string };

/** useDays is what was said on a thread, a day at a time, the latest first. */
export function useDays(threadId: string) {
  const project = encodeURIComponent(useProject());
  return useInfiniteQuery({
    queryKey: ["days", project, threadId],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const before = pageParam && `&before=${pageParam}`;
      return ask<{ snapshot: Day }>(`/api/v1/agent/history?projectId=${project}&threadId=${encodeURIComponent(threadId)}${before}`);
    },
    getNextPageParam: ({ snapshot }) => (snapshot.hasMore ? snapshot.day : null),
    refetchInterval: 5_000,
  });
}

/** Day is a day of a thread's messages. */
export interface Day {
  day: string | null;
  hasMore: boolean;
  messages: ThreadMessage[];
}

/** useChangeThread names a thread, and puts it away or takes it back. */
export function useChangeThread() {
  return useThreadChange((url, change: { title?: string; archived?: boolean }) => ask(url, { method: "PATCH", body: JSON.stringify(change) }));
}

/** useDeleteThread removes a thread with all that is in it. */
export function useDeleteThread() {
  return useThreadChange((url) => ask(url, { method: "DELETE" }));
}

function useThreadChange<A extends object>(send: (url: string, change: A) => Promise<unknown>) {
  const project = encodeURIComponent(useProject());
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ thread, ...change }: { thread: string } & A) =>
      send(`/api/v1/threads/${encodeURIComponent(thread)}?projectId=${project}`, change as unknown as A),
    onError: (error) => toast(say(error), "bad"),
    onSettled: () => {
      for (const key of ["threads", "runs", "waiting"]) void queries.invalidateQueries({ queryKey: [key] });
    },
  });
}
