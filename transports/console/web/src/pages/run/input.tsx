import { useWorkflows } from "../../api/queries";
import type { Run } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { CopyButton, Empty, Loading, Panel } from "../../ui/basics";
import { JsonTree } from "../../ui/json";
import { Content } from "../../ui/message";
import { inputOf } from "./input-of";

/** Input is what a run was started with, what it is, and what came of it. */
export function Input({ run, log }: { run: Run; log: RunLog }) {
  const workflows = useWorkflows().data?.workflows;
  const input = inputOf(log);
  const definition = workflows?.find((w) => w.name === run.workflowId);
  if (!input) return log.complete ? <Empty title="The run has not begun" /> : <Loading />;
  const rest = { state: input.state, tools: input.tools, context: input.context, forwardedProps: input.forwardedProps };
  return (
    <div className="stack">
      <Panel title="Messages" actions={<CopyButton text={() => JSON.stringify(input, null, 2)} label="Copy input" />}>
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
      <Panel title="State, tools and context">
        <JsonTree value={rest} depth={2} />
      </Panel>
      {run.outputSummary && (
        <Panel title="Result" actions={<CopyButton text={run.outputSummary} />}>
          <Content content={run.outputSummary} />
        </Panel>
      )}
      <Panel title="The run, as the API has it" actions={<CopyButton text={() => JSON.stringify(run, null, 2)} />}>
        <JsonTree value={run} depth={1} />
      </Panel>
      {definition && (
        <Panel title={`The workflow ${definition.name}, as it is now`} actions={<CopyButton text={() => JSON.stringify(definition, null, 2)} />}>
          <JsonTree value={definition} depth={3} />
        </Panel>
      )}
    </div>
  );
}
