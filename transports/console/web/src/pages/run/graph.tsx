import { useNodeStates } from "../../api/queries";
import type { Run, Workflow } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import WorkflowGraph from "../../ui/workflow-graph";

/** Graph is the workflow with the state of each node. */
export default function Graph({ run, log, workflow }: { run: Run; log: RunLog; workflow: Workflow }) {
  const turns = ["STEP_STARTED", "STEP_FINISHED", "RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"].reduce((n, t) => n + (log.types.get(t) ?? 0), 0);
  const states = useNodeStates(run.id, `${run.status}/${turns}`, run.user).data?.items;
  return <WorkflowGraph workflow={workflow} states={states ?? []} live={progressOf(log)} />;
}

// Progress of open steps, which the log has before the rows.
function progressOf(log: RunLog) {
  const told = new Map<string, { progress: number; message: string }>();
  for (const item of log.timeline.items) {
    if (item.kind === "step" && item.progress !== null && item.mark === "open") told.set(item.name, { progress: item.progress, message: item.detail });
  }
  return told;
}
