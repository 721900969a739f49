import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useProject, useSeesOthers } from "../app/context";
import { ask, begin } from "./client";
import { missing } from "./problem";
import type { Attachment, Run, RunRequest, Thread, ThreadMessage, ThreadMessages } from "./types";

/** useThreadRuns returns the latest runs of a thread, newest first. turns must change when a run starts or ends. */
export function useThreadRuns(threadId: string, exists: boolean, turns: string) {
  const project = encodeURIComponent(useProject());
  const queries = useQueryClient();
  const key = ["runs", "thread", project, threadId];
  const found = useQuery({
    queryKey: key,
    enabled: exists,
    queryFn: ({ signal }) => // no requests after the page has closed, perhaps to delete the thread
      ask<{ items: Run[] }>(`/api/projects/${project}/agent-runs?limit=50&threadId=${encodeURIComponent(threadId)}`, { signal })
        .then(({ items }) => items)
        .catch((error: unknown) => (missing(error) ? [] : Promise.reject(error))),
  });
  useEffect(() => {
    if (exists) void queries.invalidateQueries({ queryKey: ["runs", "thread", project, threadId] });
  }, [queries, project, threadId, exists, turns]);
  return found.data ?? [];
}

/** upload stores a file for a message. */
export function upload(project: string, file: File): Promise<Attachment> {
  const form = new FormData();
  form.append("file", file);
  return ask<Attachment>(`/api/v1/agent/attachments?projectId=${encodeURIComponent(project)}`, { method: "POST", body: form });
}

const signed = 10 * 60_000; // ms for which the URL of an attachment is valid at least

/** useSigned returns a URL that opens an attachment without a credential for some minutes. */
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
 * edit replaces the text of one of a thread's messages, and keeps its pictures and files. The messages after it are hidden, and the new text
 * has the same id. It uses the AG-UI endpoint, the only one that can edit messages without a content of their own; the run has no owner connection.
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

/** reworded returns the content of a message with another text, and the same pictures and files. */
export function reworded(content: ThreadMessage["content"], text: string): ThreadMessage["content"] {
  if (!Array.isArray(content)) return text;
  return [{ type: "text", text }, ...content.filter((part) => (part as { type?: string }).type !== "text")];
}

export interface ThreadFilter {
  q: string;
  user: string;
  archived: boolean;
}

/** useThreads returns threads in pages, most recently active first: the caller's own, or the project's for callers that may see others'. */
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

/** User is a user who has threads in the project. */
export interface User {
  user: string;
  threads: number; // at most 1 000
  lastActiveAt: string;
}

/** useUsers returns the users of the project by name, if there are few enough to choose from, for callers that may see others' data. */
export function useUsers() {
  const project = encodeURIComponent(useProject());
  const enabled = useSeesOthers();
  return useQuery({
    queryKey: ["users", project],
    enabled,
    queryFn: () => ask<{ items: User[]; nextCursor: string | null }>(`/api/projects/${project}/users?limit=200`),
  });
}

/** useThread returns a thread as in lists. */
export function useThread(threadId: string) {
  const project = encodeURIComponent(useProject());
  return useQuery({
    queryKey: ["threads", "one", project, threadId],
    queryFn: ({ signal }) => // no requests after the page has closed, perhaps to delete the thread
      ask<Thread>(`/api/v1/threads/${encodeURIComponent(threadId)}?projectId=${project}`, { signal }),
    retry: (n, error) => !missing(error) && n < 3,
  });
}

/** useDays returns the messages of a thread by day, latest first. */
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

/** Day is one day of a thread's messages. */
export interface Day {
  day: string | null;
  hasMore: boolean;
  messages: ThreadMessage[];
}

/** useChangeThread renames, archives or restores a thread. */
export function useChangeThread() {
  return useThreadChange((url, change: { title?: string; archived?: boolean }) => ask(url, { method: "PATCH", body: JSON.stringify(change) }));
}

/** useDeleteThread removes a thread with all its data. */
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

/** isTool reports whether a run is a single tool call, which has no conversation. */
export const isTool = ({ workflowId }: Pick<Run, "workflowId">) => workflowId.startsWith("tool:");
