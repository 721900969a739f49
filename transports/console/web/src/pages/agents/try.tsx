import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { ask } from "../../api/client";
import { isDigits } from "../../api/json";
import { over, useRun } from "../../api/queries";
import type { Tool } from "../../api/types";
import { useProject } from "../../app/context";
import { Answer } from "../../ui/answer";
import { Failure, Took } from "../../ui/basics";
import { Drawn } from "../../ui/drawn";
import { JsonTree, parsed } from "../../ui/json";
import { initial, wrong, type Schema } from "../../ui/schema";
import { StatusBadge } from "../../ui/status";
import { ValueEditor } from "../../ui/value-editor";

/** Try calls a tool in a run of its own. */
export function Try({ tool }: { tool: Tool }) {
  const [open, setOpen] = useState(false);
  if (open) return <Drawn value={tool.parameters}><Form tool={tool} /></Drawn>;
  return (
    <div>
      <button type="button" className="button small" onClick={() => setOpen(true)}>
        Try this tool
      </button>
    </div>
  );
}

function Form({ tool }: { tool: Tool }) {
  const schema = (tool.parameters ?? { type: "object" }) as Schema;
  const [value, setValue] = useState<unknown>(() => initial(schema) ?? {});
  const [problems, setProblems] = useState<Record<string, string>>({});
  const project = useProject();
  const call = useMutation({
    mutationFn: (args: unknown) =>
      ask<{ runId: string }>(`/api/v1/tools/${encodeURIComponent(tool.name)}/runs?projectId=${encodeURIComponent(project)}`, {
        method: "POST",
        body: JSON.stringify({ arguments: args }),
      }),
  });
  const submit = () => {
    const found = wrong(schema, value, true);
    setProblems(found);
    if (Object.keys(found).length === 0 && value !== undefined) call.mutate(value);
  };
  return (
    <form
      className="stack" noValidate
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
    >
      <ValueEditor label={`Arguments of ${tool.name}`} schema={schema} value={value} onChange={setValue} problems={problems} />
      <div>
        <button type="submit" className="button primary small" disabled={call.isPending || value === undefined}>
          Call it
        </button>
      </div>
      {call.error && <Failure error={call.error} />}
      {call.data && <Outcome key={call.data.runId} runId={call.data.runId} />}
    </form>
  );
}

function Outcome({ runId }: { runId: string }) {
  const { data: run } = useRun(runId);
  if (!run) return null;
  const result = parsed(run.outputSummary ?? "");
  return (
    <div className="stack" role="status">
      <p className="row wraps">
        <StatusBadge status={run.status} />
        <Took from={run.startedAt} to={run.finishedAt} />
        <Link href={`/runs/${encodeURIComponent(run.id)}`}>The run</Link>
      </p>
      {run.error && <p className="wrap">{run.error.message}</p>}
      {over(run.status) && run.outputSummary !== null &&
        (typeof result === "object" && !isDigits(result) ? <JsonTree value={result} depth={3} /> : <pre className="code wraps">{run.outputSummary}</pre>)}
      {run.status === "WAITING" && run.interrupts.length > 0 && <Answer runId={run.id} user={run.user} interrupts={run.interrupts} />}
    </div>
  );
}
