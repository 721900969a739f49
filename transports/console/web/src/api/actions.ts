import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { useProject } from "../app/context";
import { ask } from "./client";
import { made } from "./name";
import { runURL } from "./queries";
import type { Run, RunRequest } from "./types";

type Which = Pick<Run, "id" | "user">;

// Who changes something says what has failed where the person looks: a toast is not seen beside an open dialog.

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
  const named = useNamed();
  return useChange((projectId, body: RunRequest) =>
    named({ ...body, projectId }, "", (request) => ask<Started>("/api/v1/agent/runs", { method: "POST", body: JSON.stringify(request) })),
  );
}

/** useNamed names the run of a request. What is sent again in the same words, because the answer was lost, has the same name, and is the same run. */
export function useNamed() {
  const last = useRef({ words: "", runId: "" });
  return async <T>(body: RunRequest, text: string, send: (named: RunRequest, runId: string) => Promise<T>): Promise<T> => {
    const words = JSON.stringify([body, text]);
    if (last.current.words !== words) last.current = { words, runId: made("run") };
    const { runId } = last.current;
    const answer = await send({ ...body, runId }, runId);
    last.current = { words: "", runId: "" };
    return answer;
  };
}

function useChange<A, R>(change: (project: string, what: A) => Promise<R>) {
  const project = useProject();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (what: A) => change(project, what),
    onSettled: () => {
      for (const key of ["run", "runs", "waiting", "threads"]) void queries.invalidateQueries({ queryKey: [key] });
    },
  });
}
