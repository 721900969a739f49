import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useProject } from "../app/context";
import { ask, begin } from "./client";
import { missing } from "./problem";
import { over } from "./queries";
import type { Attachment, Run, RunRequest, ThreadMessage, ThreadMessages } from "./types";

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
