import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { useLocation } from "wouter";
import { useNamed, useRerun, useStart } from "../../api/actions";
import { edit } from "../../api/threads";
import type { Run, RunRequest, ThreadMessage } from "../../api/types";
import { useOwns, useProject } from "../../app/context";
import type { RunLog } from "../../log/runlog";
import { Failure } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { again, askedOf, inputOf, textOf, withoutMessages, type RunInput } from "./input-of";

type Where = "new" | "after" | "place";

/** Rerun starts a run again, unchanged or edited. */
export function Rerun({ run, log, onClose }: { run: Run; log: RunLog; onClose: () => void }) {
  const input = inputOf(log);
  const asked = askedOf(input);
  const original = textOf(run, input);
  const [content, setContent] = useState(original);
  const [where, setWhere] = useState<Where>("new");
  const own = useOwns(run.user);
  const [, go] = useLocation();
  const start = useStart();
  const instead = useInstead();
  const rerun = useRerun();
  const [node, setNode] = useState("");
  const nodes = nodesOf(run, log);
  const id = useId();
  const options: { id: Where; text: string }[] = [
    { id: "new", text: "in a new thread" },
    ...(own ? [{ id: "after" as const, text: "in its thread, after the last message" }] : []),
    ...(own && asked && content.trim() ? [{ id: "place" as const, text: "in its thread, replacing its message and everything after it" }] : []),
  ];
  const chosen = options.some((o) => o.id === where) ? where : "new";
  const began = ({ runId }: { runId: string }) => {
    onClose();
    go(`/runs/${encodeURIComponent(runId)}`);
  };
  const unchanged = chosen === "new" && content === original;
  const begin = () => {
    if (node || unchanged) rerun.mutate({ run, from: node ? { fromNode: node } : {} }, { onSuccess: began });
    else if (chosen === "place" && asked && content !== original) instead.mutate({ run, input, asked, content }, { onSuccess: began });
    else start.mutate(request(run, input, content, chosen, asked), { onSuccess: began });
  };
  const error = rerun.error ?? start.error ?? instead.error;
  return (
    <Dialog
      title={`Run ${run.workflowId} again`}
      onClose={onClose}
      footer={
        <button type="button" className="button primary" disabled={rerun.isPending || start.isPending || instead.isPending} onClick={begin}>
          Run
        </button>
      }
    >
      <div className="stack">
        {nodes.length > 1 && (
          <div className="field">
            <label className="label" htmlFor={`${id}-from`}>
              From
            </label>
            <select id={`${id}-from`} className="input" value={node} onChange={(e) => setNode(e.target.value)}>
              <option value="">its beginning</option>
              {nodes.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </div>
        )}
        {node ? (
          <p className="muted">
            In a new thread. It begins as the run was when {node} began: nodes that were completed then keep their outputs and are not executed again. Later nodes are
            executed, call tools and ask again.
          </p>
        ) : (
          <>
            <div className="field">
              <label className="label" htmlFor={id}>
                Message to send
              </label>
              <textarea id={id} className="input" rows={7} autoFocus value={content} onChange={(e) => setContent(e.target.value)} />
            </div>
            <fieldset className="fieldset stack">
              <legend>Where</legend>
              {options.map((o) => (
                <label key={o.id} className="check">
                  <input type="radio" name={id} checked={chosen === o.id} onChange={() => setWhere(o.id)} />
                  {o.text}
                </label>
              ))}
            </fieldset>
            <p className="muted">
              {unchanged
                ? "Everything that it was started with is sent again."
                : "Its messages and its state are sent again. Front-end tools, context and forwardedProps are not in its log."}
            </p>
          </>
        )}
        {error && <Failure error={error} />}
      </div>
    </Dialog>
  );
}

// The nodes of a workflow that the run has begun.
function nodesOf(run: Run, log: RunLog): string[] {
  if (run.agent !== null) return [];
  const begun = log.events.flatMap(({ event: e }) => (e.type === "STEP_STARTED" && !e.subagentRunId && typeof e.stepName === "string" ? [e.stepName] : []));
  return [...new Set(begun)];
}

interface Edited {
  run: Run;
  input: RunInput | null;
  asked: ThreadMessage;
  content: string;
}

// Replaces the message of a run with another one.
function useInstead() {
  const project = useProject();
  const queries = useQueryClient();
  const named = useNamed();
  return useMutation({
    mutationFn: ({ run, input, asked, content }: Edited) =>
      named({ ...withoutMessages(run, input), threadId: run.threadId }, content, async (request, runId) => {
        await edit(project, run.workflowId, request, asked.id, content);
        return { runId };
      }),
    onSettled: () => void queries.invalidateQueries({ queryKey: ["runs"] }),
  });
}

function request(run: Run, input: RunInput | null, content: string, where: Where, asked?: ThreadMessage): RunRequest {
  const metadata = { ...run.metadata, rerunOf: run.id } as object as RunRequest["metadata"];
  if (where === "place" && asked) return { ...withoutMessages(run, input), metadata, threadId: run.threadId, rewindTo: asked.id };
  return { ...again(run, input, content), metadata, ...(where === "after" && { threadId: run.threadId }) };
}
