import { useId, useState } from "react";
import { useLocation } from "wouter";
import { useStart } from "../../api/actions";
import type { Run, RunRequest, ThreadMessage } from "../../api/types";
import { useOwns } from "../../app/context";
import type { RunLog } from "../../log/runlog";
import { Dialog } from "../../ui/dialog";
import { plainText } from "../../ui/message";
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
  const id = useId();
  const options: { id: Where; text: string }[] = [
    { id: "new", text: "in a new thread" },
    ...(own ? [{ id: "after" as const, text: "in its thread, after all that was said" }] : []),
    ...(own && asked && content === original ? [{ id: "place" as const, text: "in its thread, in the place of its answer and what followed" }] : []),
  ];
  const chosen = options.some((o) => o.id === where) ? where : "new";
  const begin = () =>
    start.mutate(request(run, input, content, original, chosen, asked), {
      onSuccess: ({ runId }) => {
        onClose();
        go(`/runs/${encodeURIComponent(runId)}`);
      },
    });
  return (
    <Dialog
      title={`Run ${run.workflowId} again`}
      onClose={onClose}
      footer={
        <button type="button" className="button primary" disabled={start.isPending} onClick={begin}>
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

function request(run: Run, input: RunInput | null, content: string, original: string, where: Where, asked?: ThreadMessage): RunRequest {
  const what: RunRequest = run.agent === null ? { workflowId: run.workflowId } : { agent: run.agent };
  const props = input?.forwardedProps;
  const shared: RunRequest = {
    ...what,
    tools: input?.tools ?? [],
    context: input?.context ?? [],
    ...(typeof props === "object" && props !== null ? { forwardedProps: props as Record<string, unknown> } : {}),
  };
  if (where === "place" && asked) return { ...shared, threadId: run.threadId, rewindTo: asked.id };
  const thread = where === "after" ? { threadId: run.threadId } : {};
  const parts = asked && typeof asked.content !== "string" && content === original;
  if (parts) return { ...shared, ...thread, messages: [{ role: "user", content: asked.content }] as RunRequest["messages"] };
  return { ...shared, ...thread, ...(content.trim() ? { content } : {}) };
}
