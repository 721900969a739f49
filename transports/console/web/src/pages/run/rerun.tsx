import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { useLocation } from "wouter";
import { useStart } from "../../api/actions";
import { say } from "../../api/problem";
import { edit } from "../../api/threads";
import type { Run, RunRequest, ThreadMessage } from "../../api/types";
import { useOwns, useProject } from "../../app/context";
import type { RunLog } from "../../log/runlog";
import { Dialog } from "../../ui/dialog";
import { plainText } from "../../ui/message";
import { toast } from "../../ui/toast";
import { inputOf, type RunInput } from "./input-of";

type Where = "new" | "after" | "place";

/** Rerun starts the same again, as it was or edited. */
export function Rerun({ run, log, onClose }: { run: Run; log: RunLog; onClose: () => void }) {
  const input = inputOf(log);
  const asked = input?.messages.findLast((m) => m.role === "user");
  const original = asked ? plainText(asked.content) : run.inputQuery;
  const [content, setContent] = useState(original);
  const [where, setWhere] = useState<Where>("new");
  const own = useOwns(run.user);
  const [, go] = useLocation();
  const start = useStart();
  const instead = useInstead();
  const id = useId();
  const options: { id: Where; text: string }[] = [
    { id: "new", text: "in a new thread" },
    ...(own ? [{ id: "after" as const, text: "in its thread, after all that was said" }] : []),
    ...(own && asked && content.trim() ? [{ id: "place" as const, text: "in its thread, in the place of what was asked and all that followed" }] : []),
  ];
  const chosen = options.some((o) => o.id === where) ? where : "new";
  const began = ({ runId }: { runId: string }) => {
    onClose();
    go(`/runs/${encodeURIComponent(runId)}`);
  };
  const begin = () => {
    if (chosen === "place" && asked && content !== original) instead.mutate({ run, input, asked, content }, { onSuccess: began });
    else start.mutate(request(run, input, content, original, chosen, asked), { onSuccess: began });
  };
  return (
    <Dialog
      title={`Run ${run.workflowId} again`}
      onClose={onClose}
      footer={
        <button type="button" className="button primary" disabled={start.isPending || instead.isPending} onClick={begin}>
          Run
        </button>
      }
    >
      <div className="stack">
        <div className="field">
          <label className="label" htmlFor={id}>
            What it is asked
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
      </div>
    </Dialog>
  );
}

interface Edited {
  run: Run;
  input: RunInput | null;
  asked: ThreadMessage;
  content: string;
}

// Says something else in the place of what a run was asked, in a run under a name that is made here.
function useInstead() {
  const project = useProject();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ run, input, asked, content }: Edited) => {
      const runId = `edit-${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 10)}`;
      const envelope = { ...shared(run, input), threadId: run.threadId, runId };
      await edit(project, run.workflowId, envelope, asked.id, reworded(asked.content, content));
      return { runId };
    },
    onError: (error) => toast(say(error), "bad"),
    onSettled: () => void queries.invalidateQueries({ queryKey: ["runs"] }),
  });
}

// A message's text is another; its pictures and files stay.
function reworded(content: unknown, text: string): unknown {
  if (!Array.isArray(content)) return text;
  return [{ type: "text", text }, ...content.filter((part: { type?: string }) => part.type !== "text")];
}

function shared(run: Run, input: RunInput | null): RunRequest {
  const props = input?.forwardedProps;
  return {
    ...(run.agent === null ? { workflowId: run.workflowId } : { agent: run.agent }),
    tools: input?.tools ?? [],
    context: input?.context ?? [],
    ...(typeof props === "object" && props !== null ? { forwardedProps: props as Record<string, unknown> } : {}),
  };
}

function request(run: Run, input: RunInput | null, content: string, original: string, where: Where, asked?: ThreadMessage): RunRequest {
  const same = shared(run, input);
  if (where === "place" && asked) return { ...same, threadId: run.threadId, rewindTo: asked.id };
  const thread = where === "after" ? { threadId: run.threadId } : {};
  const parts = asked && typeof asked.content !== "string" && content === original;
  if (parts) return { ...same, ...thread, messages: [{ role: "user", content: asked.content }] as RunRequest["messages"] };
  return { ...same, ...thread, ...(content.trim() ? { content } : {}) };
}
