import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useProject } from "../app/context";
import { ask } from "./client";
import { made } from "./name";
import { runURL } from "./queries";
import type { Run, RunRequest } from "./types";

type Which = Pick<Run, "id" | "user">;

// Failures of a change are shown in place: a toast is not visible beside an open dialog.

export function useCancel() {
  return useChange((project, run: Which) => ask(runURL(project, run, "/cancel"), { method: "POST" }));
}

/** useDelete removes an ended run with its events. */
export function useDelete() {
  return useChange((project, run: Which) => ask(runURL(project, run), { method: "DELETE" }));
}

/** useAppend appends a message to a run. An ended run starts again. */
export function useAppend() {
  return useChange((project, { run, content }: { run: Which; content: string }) =>
    ask(runURL(project, run, "/messages"), { method: "POST", body: JSON.stringify({ content }) }),
  );
}

/** From is where a rerun begins: at a node of its workflow, at a model call, or at its beginning. */
export interface From {
  fromNode?: string;
  fromCall?: string;
}

/** rerun starts a run again on a new thread. A repeat with the same key gets the same run. */
export function rerun(project: string, run: Which, key: string, from: From = {}): Promise<Started> {
  return ask<Started>(runURL(project, run, "/rerun"), { method: "POST", headers: { "Idempotency-Key": key }, body: JSON.stringify(from) });
}

/** useRerun is rerun of one run, with a key for each place to begin at. */
export function useRerun() {
  const [key] = useState(() => made("rerun"));
  return useChange((project, { run, from }: { run: Which; from: From }) => rerun(project, run, `${key}-${from.fromNode ?? ""}-${from.fromCall ?? ""}`, from));
}

export interface Started {
  threadId: string;
  runId: string;
  conversationId: string;
}

/** useStart starts a run that only a cancel ends. */
export function useStart() {
  const named = useNamed();
  return useChange((projectId, body: RunRequest) =>
    named({ ...body, projectId }, "", (request) => ask<Started>("/api/v1/agent/runs", { method: "POST", body: JSON.stringify(request) })),
  );
}

/** useNamed returns the run id for a request. A repeat of the same request after a lost answer gets the same id, and so is the same run. */
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
