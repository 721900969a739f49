import type { Run } from "../../api/types";
import { useProject } from "../../app/context";
import { runURL } from "../../api/queries";
import type { RunLog } from "../../log/runlog";
import { CopyButton, Empty, Loading, Panel } from "../../ui/basics";
import { Drawn } from "../../ui/drawn";
import { Files } from "../../ui/files";
import { Json } from "../../ui/lines";
import { Content } from "../../ui/message";
import { command } from "./curl";
import { inputOf } from "./input-of";
import { useDefinition } from "./use-definition";

/** Input is the input of a run, the run object and its workflow. */
export function Input({ run, log }: { run: Run; log: RunLog }) {
  const project = useProject();
  const input = inputOf(log);
  const definition = useDefinition(run);
  if (!input) return log.complete ? <Empty title="The run has not started" /> : <Loading />;
  const curl = (part: string) => <CopyButton text={() => command(runURL(project, run, part))} label="Copy curl" />;
  const copy = (value: unknown, label?: string) => <CopyButton text={() => JSON.stringify(value, null, 2)} label={label} />;
  return (
    <div className="stack">
      <Panel title="Messages" actions={copy(input, "Copy input")}>
        <div className="stack">
          {input.messages.length === 0 && <p className="muted">None. The run continued with the messages of the thread.</p>}
          {input.messages.map((m, i) => (
            <Drawn key={i} value={m}>
              <p className="muted">{m.role}</p>
              <Content content={m.content ?? ""} />
              <Files message={m} />
            </Drawn>
          ))}
        </div>
      </Panel>
      {input.state !== undefined && (
        <Panel title="State at the start" actions={copy(input.state)}>
          <Json label="the state" value={input.state} depth={2} />
        </Panel>
      )}
      {run.outputSummary && (
        <Panel title="Result" actions={<CopyButton text={run.outputSummary} />}>
          <Content content={run.outputSummary} />
        </Panel>
      )}
      <Panel title="Run object of the API" actions={<>{copy(run)}{curl("")}</>}>
        <Json label="the run" value={run} depth={1} />
      </Panel>
      {definition && (
        <Panel title={`Workflow ${definition.name} at the start of the run`} actions={<>{copy(definition)}{curl("/definition")}</>}>
          <Json label="the workflow" value={definition} depth={3} />
        </Panel>
      )}
    </div>
  );
}
