import { useState } from "react";
import { useNodeStates } from "../../api/queries";
import type { Run, Workflow } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import WorkflowGraph from "../../ui/workflow-graph";
import { NodeDetail } from "./node-detail";

/** Graph is the workflow with the state of each node. A click on a node shows its input and output. */
export default function Graph({ run, log, workflow }: { run: Run; log: RunLog; workflow: Workflow }) {
  const [node, choose] = useState("");
  const changes = ["STEP_STARTED", "STEP_FINISHED", "RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"].reduce((n, t) => n + (log.types.get(t) ?? 0), 0);
  const turns = `${run.status}/${changes}`;
  const states = useNodeStates(run.id, turns, run.user).data?.items;
  return (
    <>
      <WorkflowGraph workflow={workflow} states={states ?? []} live={progressOf(log)} choose={(id) => choose(id === node ? "" : id)} />
      {node && <NodeDetail run={run} node={node} turns={turns} close={() => choose("")} />}
    </>
  );
}

// Progress of open steps, which the log has before the rows.
function progressOf(log: RunLog) {
  const told = new Map<string, { progress: number; message: string }>();
  for (const item of log.timeline.items) {
    if (item.kind === "step" && item.progress !== null && item.mark === "open") told.set(item.name, { progress: item.progress, message: item.detail });
  }
  return told;
}
