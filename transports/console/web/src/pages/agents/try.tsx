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
import { CodeEditor } from "../../ui/code-editor";
import { Drawn } from "../../ui/drawn";
import { JsonTree, parsed } from "../../ui/json";
import { initial, plain, shape, wrong, type Schema } from "../../ui/schema";
import { SchemaForm } from "../../ui/schema-form";
import { StatusBadge } from "../../ui/status";

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
  const fields = shape(plain(schema, schema)) === "object";
  const [value, setValue] = useState<unknown>(() => initial(schema) ?? {});
  const [text, setText] = useState("{}");
  const [problems, setProblems] = useState<Record<string, string>>({});
  const project = useProject();
  const call = useMutation({
    mutationFn: (args: unknown) =>
      ask<{ runId: string }>(`/api/v1/tools/${encodeURIComponent(tool.name)}/runs?projectId=${encodeURIComponent(project)}`, {
        method: "POST",
        body: JSON.stringify({ arguments: args }),
      }),
  });
  const args = fields ? value : parsed(text);
  const submit = () => {
    const found = wrong(schema, args, true);
    setProblems(found);
    if (Object.keys(found).length === 0 && args !== undefined) call.mutate(args);
  };
  return (
    <form
      className="stack" noValidate
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
    >
      {fields ? (
        <SchemaForm schema={schema} value={value} onChange={setValue} problems={problems} required />
      ) : (
        <CodeEditor label={`Arguments of ${tool.name}`} value={text} onChange={setText} height={64} />
      )}
      <div>
        <button type="submit" className="button primary small" disabled={call.isPending || args === undefined}>
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
      {run.status === "WAITING" && <Answer runId={run.id} user={run.user} interrupts={run.interrupts} />}
    </div>
  );
}
