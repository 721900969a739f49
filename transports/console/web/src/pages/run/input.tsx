import type { Run } from "../../api/types";
import { useProject } from "../../app/context";
import { runURL } from "../../api/actions";
import type { RunLog } from "../../log/runlog";
import { CopyButton, Empty, Loading, Panel } from "../../ui/basics";
import { Json } from "../../ui/lines";
import { Content } from "../../ui/message";
import { command } from "./curl";
import { inputOf } from "./input-of";
import { useDefinition } from "./use-definition";

/** Input is what a run was started with, what it is, and what came of it. */
export function Input({ run, log }: { run: Run; log: RunLog }) {
  const project = useProject();
  const input = inputOf(log);
  const definition = useDefinition(run);
  if (!input) return log.complete ? <Empty title="The run has not begun" /> : <Loading />;
  const rest = { state: input.state, tools: input.tools, context: input.context, forwardedProps: input.forwardedProps };
  const curl = (part: string) => <CopyButton text={() => command(runURL(project, run, part))} label="Copy curl" />;
  const copy = (value: unknown, label?: string) => <CopyButton text={() => JSON.stringify(value, null, 2)} label={label} />;
  return (
    <div className="stack">
      <Panel title="Messages" actions={copy(input, "Copy input")}>
        <div className="stack">
          {input.messages.length === 0 && <p className="muted">None: it went on with what the thread had.</p>}
          {input.messages.map((m) => (
            <div key={m.id}>
              <p className="muted">{m.role}</p>
              <Content content={m.content ?? ""} />
            </div>
          ))}
        </div>
      </Panel>
      <Panel title="State, tools and context" actions={copy(rest)}>
        <Json label="state, tools and context" value={rest} depth={2} />
      </Panel>
      {run.outputSummary && (
        <Panel title="Result" actions={<CopyButton text={run.outputSummary} />}>
          <Content content={run.outputSummary} />
        </Panel>
      )}
      <Panel title="The run, as the API has it" actions={<>{copy(run)}{curl("")}</>}>
        <Json label="the run" value={run} depth={1} />
      </Panel>
      {definition && (
        <Panel title={`The workflow ${definition.name}, as the run was started with it`} actions={<>{copy(definition)}{curl("/definition")}</>}>
          <Json label="the workflow" value={definition} depth={3} />
        </Panel>
      )}
    </div>
  );
}
