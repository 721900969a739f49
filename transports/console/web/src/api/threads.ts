import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useProject, useSeesOthers } from "../app/context";
import { ask, begin } from "./client";
import { missing } from "./problem";
import type { Attachment, Run, RunRequest, Thread, ThreadMessage, ThreadMessages } from "./types";

/** useThreadRuns are the latest runs of a thread, latest first. turns is anything that changes when one begins or ends. */
export function useThreadRuns(threadId: string, exists: boolean, turns: string) {
  const project = encodeURIComponent(useProject());
  const queries = useQueryClient();
  const key = ["runs", "thread", project, threadId];
  const found = useQuery({
    queryKey: key,
    enabled: exists,
    queryFn: ({ signal }) => // who leaves the thread, to delete it perhaps, asks no more
      ask<{ items: Run[] }>(`/api/projects/${project}/agent-runs?limit=50&threadId=${encodeURIComponent(threadId)}`, { signal })
        .then(({ items }) => items)
        .catch((error: unknown) => (missing(error) ? [] : Promise.reject(error))),
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

const signed = 10 * 60_000; // ms for which the URL of an attachment is good at least

/** useSigned is a URL that opens an attachment without a credential, for some minutes. */
export function useSigned({ bucket, path }: Pick<Attachment, "bucket" | "path">) {
  return useQuery({
    queryKey: ["attachment", bucket, path],
    queryFn: () =>
      ask<{ url: string }>(`/api/v1/agent/attachments/signed-url?bucket=${encodeURIComponent(bucket)}&path=${encodeURIComponent(path)}`),
    staleTime: signed,
    refetchInterval: signed,
    refetchOnWindowFocus: false,
  });
}

/**
 * edit says something else in the place of one of a thread's messages, whose pictures and files stay: what followed it is hidden, and what
 * is said stands under its id. It goes through AG-UI's door, as a message without one before it can be edited there alone; the run is nobody's connection's.
 */
export async function edit(project: string, what: string, request: RunRequest, messageId: string, text: string): Promise<void> {
  const query = `projectId=${encodeURIComponent(project)}`;
  const thread = encodeURIComponent(request.threadId ?? "");
  const { messages } = await ask<ThreadMessages>(`/api/v1/threads/${thread}/messages?${query}`);
  const at = messages.findIndex((m) => m.id === messageId);
  if (at < 0) throw new Error("This message is no longer in the thread.");
  const before = messages[at] as ThreadMessage;
  const said = { ...before, content: reworded(before.content, text) };
  await begin(`/api/v1/agui/${encodeURIComponent(what)}?${query}`, {
    ...request,
    messages: [...messages.slice(0, at), said],
    forwardedProps: { ...(request.forwardedProps as object | undefined), background: true },
  });
}

/** reworded is what a message says with another text: its pictures and files stay. */
export function reworded(content: ThreadMessage["content"], text: string): ThreadMessage["content"] {
  if (!Array.isArray(content)) return text;
  return [{ type: "text", text }, ...content.filter((part) => (part as { type?: string }).type !== "text")];
}

export interface ThreadFilter {
  q: string;
  user: string;
  archived: boolean;
}

/** useThreads are threads in pages, those with the latest activity first: the caller's own, or of who sees others' all that are the project's. */
export function useThreads({ q, user, archived }: ThreadFilter) {
  const projectId = useProject();
  return useInfiniteQuery({
    queryKey: ["threads", projectId, q, user, archived],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const query = new URLSearchParams({ limit: "50", archived: String(archived) });
      for (const [name, value] of Object.entries({ q, user, cursor: pageParam })) if (value) query.set(name, value);
      return ask<{ items: Thread[]; nextCursor: string | null }>(`/api/projects/${encodeURIComponent(projectId)}/threads?${query}`);
    },
    getNextPageParam: (page) => page.nextCursor,
    placeholderData: keepPreviousData,
  });
}

/** User is somebody who has threads in the project. */
export interface User {
  user: string;
  threads: number; // 1 000 for those who have more
  lastActiveAt: string;
}

/** useUsers are the users of the project by name, as far as a list of them is any use, for who sees what is others'. */
export function useUsers() {
  const project = encodeURIComponent(useProject());
  const enabled = useSeesOthers();
  return useQuery({
    queryKey: ["users", project],
    enabled,
    queryFn: () => ask<{ items: User[]; nextCursor: string | null }>(`/api/projects/${project}/users?limit=200`),
  });
}

/** useThread is a thread as lists show it. */
export function useThread(threadId: string) {
  const project = encodeURIComponent(useProject());
  return useQuery({
    queryKey: ["threads", "one", project, threadId],
    queryFn: ({ signal }) => // who leaves the thread, to delete it perhaps, asks no more
      ask<Thread>(`/api/v1/threads/${encodeURIComponent(threadId)}?projectId=${project}`, { signal }),
    retry: (n, error) => !missing(error) && n < 3,
  });
}

/** useDays is what was said on a thread, a day at a time, the latest first. */
export function useDays(threadId: string) {
  const project = encodeURIComponent(useProject());
  return useInfiniteQuery({
    queryKey: ["days", project, threadId],
    initialPageParam: "",
    queryFn: ({ pageParam, signal }) => {
      const before = pageParam && `&before=${pageParam}`;
      return ask<{ snapshot: Day }>(`/api/v1/agent/history?projectId=${project}&threadId=${encodeURIComponent(threadId)}${before}`, { signal });
    },
    getNextPageParam: ({ snapshot }) => (snapshot.hasMore ? snapshot.day : null),
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
    onSettled: () => {
      for (const key of ["threads", "runs", "waiting"]) void queries.invalidateQueries({ queryKey: [key] });
    },
  });
}

/** isTool reports whether a run is one call of a tool by itself, which is nothing to talk to. */
export const isTool = ({ workflowId }: Pick<Run, "workflowId">) => workflowId.startsWith("tool:");
