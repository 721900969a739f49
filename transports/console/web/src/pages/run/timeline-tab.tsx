import { lazy, Suspense } from "react";
import { over, useWorkflows } from "../../api/queries";
import type { Run } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { Loading } from "../../ui/basics";
import { Timeline } from "./timeline";

const Graph = lazy(() => import("./graph"));

/** TimelineTab is what a run did: of a workflow its graph, and below it what went on when. */
export function TimelineTab({ run, log, show }: { run: Run; log: RunLog; show: (event: number) => void }) {
  const workflows = useWorkflows().data?.workflows;
  const workflow = run.agent === null ? workflows?.find((w) => w.name === run.workflowId) : undefined;
  return (
    <div className="stack">
      {workflow && (
        <Suspense fallback={<div className="graph"><Loading /></div>}>
          <Graph run={run} log={log} workflow={workflow} />
        </Suspense>
      )}
      <Timeline log={log} live={!over(run.status)} show={show} />
    </div>
  );
}
