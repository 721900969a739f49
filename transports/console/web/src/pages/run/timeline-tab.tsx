import { over, runURL } from "../../api/queries";
import type { Run } from "../../api/types";
import { useProject } from "../../app/context";
import { part } from "../../app/part";
import type { RunLog } from "../../log/runlog";
import { CopyButton, Loading } from "../../ui/basics";
import { command } from "./curl";
import { Timeline } from "./timeline";
import { useDefinition } from "./use-definition";

const Graph = part(() => import("./graph"), () => <div className="graph"><Loading /></div>);

/** TimelineTab is the graph of a workflow's run, and the timeline. */
export function TimelineTab({ run, log, at, choose, show }: {
  run: Run;
  log: RunLog;
  at: number; // the first event of the line that is open, 0 for none
  choose: (event: number) => void;
  show: (event: number) => void;
}) {
  const project = useProject();
  const workflow = useDefinition(run);
  return (
    <div className="stack">
      {workflow && <Graph run={run} log={log} workflow={workflow} />}
      <Timeline run={run} log={log} live={!over(run.status)} at={at} choose={choose} show={show} />
      <div className="row wraps">
        {workflow && <CopyButton text={() => command(runURL(project, run, "/node-states"))} label="Copy curl of the nodes" />}
        <CopyButton text={() => command(runURL(project, run, "/steps"))} label="Copy curl of the steps" />
      </div>
    </div>
  );
}
