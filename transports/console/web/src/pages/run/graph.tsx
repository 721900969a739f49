import dagre from "@dagrejs/dagre";
import { Background, Controls, Handle, MarkerType, Position, ReactFlow, type Edge, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { memo, useMemo } from "react";
import { useNodeStates } from "../../api/queries";
import type { NodeState, Run, Workflow, WorkflowNode } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { Took } from "../../ui/basics";
import { StatusBadge, tone } from "../../ui/status";

const width = 208;
const height = 84;

type GraphNode = Node<{ node: WorkflowNode; down: boolean; state: NodeState | undefined; message: string; progress: number }, "node">;

const types = { node: memo(NodeBox) };

/** Graph is a workflow with what has become of each node. */
export default function Graph({ run, log, workflow }: { run: Run; log: RunLog; workflow: Workflow }) {
  const turns = ["STEP_STARTED", "STEP_FINISHED", "RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"].reduce((n, t) => n + (log.types.get(t) ?? 0), 0);
  const states = useNodeStates(run.id, `${run.status}/${turns}`, run.user).data?.items;
  const down = matchMedia("(max-width: 700px)").matches; // where there is more room below than beside
  const { places, size } = useMemo(() => layout(workflow.nodes, down), [workflow.nodes, down]);
  const told = progressOf(log);
  const changed = states?.some((s) => !workflow.nodes.some((n) => n.id === s.nodeId)) ?? false;
  const of = (id: string) => states?.find((s) => s.nodeId === id);
  const nodes: GraphNode[] = workflow.nodes.map((node) => {
    const state = of(node.id);
    const live = state?.status === "RUNNING" ? told.get(node.id) : undefined;
    return {
      id: node.id, type: "node", position: places.get(node.id) ?? { x: 0, y: 0 }, draggable: false, width, height,
      data: { node, state, down, message: live?.message ?? state?.messages.at(-1) ?? "", progress: live?.progress ?? state?.progress ?? 0 },
    };
  });
  const edges: Edge[] = workflow.nodes.flatMap((node) =>
    node.needs.map((from) => {
      const taken = of(node.id) && !["PENDING", "SKIPPED"].includes(of(node.id)?.status ?? "PENDING");
      return {
        id: `${from}→${node.id}`, source: from, target: node.id, focusable: false, animated: of(node.id)?.status === "RUNNING",
        className: taken ? "taken" : of(node.id)?.status === "SKIPPED" ? "skipped" : "", markerEnd: { type: MarkerType.ArrowClosed },
        ...(node.when ? { label: node.when } : {}),
      };
    }),
  );
  return (
    <figure className="graph" aria-label={`The workflow ${workflow.name}`} style={{ height: Math.min(down ? 560 : 420, Math.max(170, size + 64)) }}>
      <ReactFlow
        nodes={nodes} edges={edges} nodeTypes={types} fitView fitViewOptions={{ padding: 0.12, maxZoom: 1 }} minZoom={0.2} maxZoom={1.6}
        nodesConnectable={false} nodesFocusable={false} edgesFocusable={false} elementsSelectable={false} preventScrolling={false} zoomOnScroll={false}
        proOptions={{ hideAttribution: true }}
      >
        <Background gap={18} size={1} />
        <Controls showInteractive={false} position="bottom-right" />
      </ReactFlow>
      {changed && <figcaption className="muted">The workflow has been changed since: this is what it is now.</figcaption>}
    </figure>
  );
}

function NodeBox({ data: { node, state, down, message, progress } }: NodeProps<GraphNode>) {
  const status = state?.status ?? "PENDING";
  return (
    <div className="node" data-tone={tone(status)} data-status={status} style={{ width, minHeight: height }}>
      <Handle type="target" position={down ? Position.Top : Position.Left} isConnectable={false} />
      <div className="row">
        <strong className="clip grow">{node.id}</strong>
        <StatusBadge status={status} />
      </div>
      <div className="row muted">
        <span className="mono clip grow">{node.agent ?? node.tool}</span>
        {state?.startedAt && <Took from={state.startedAt} to={state.completedAt} />}
      </div>
      <div className="muted clip">{state?.error ? <span className="wrong">{state.error.message}</span> : message || (node.when && `when ${node.when}`)}</div>
      {status === "RUNNING" && progress > 0 && <span className="meter" style={{ width: `${progress * 100}%` }} />}
      <Handle type="source" position={down ? Position.Bottom : Position.Right} isConnectable={false} />
    </div>
  );
}

// What open steps have told of themselves: the log knows before the rows are asked for again.
function progressOf(log: RunLog) {
  const told = new Map<string, { progress: number; message: string }>();
  for (const item of log.timeline.items) {
    if (item.kind === "step" && item.progress !== null && item.mark === "open") told.set(item.name, { progress: item.progress, message: item.detail });
  }
  return told;
}

function layout(nodes: WorkflowNode[], down: boolean) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: down ? "TB" : "LR", nodesep: 24, ranksep: down ? 36 : 64 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const n of nodes) graph.setNode(n.id, { width, height });
  for (const n of nodes) for (const from of n.needs) graph.setEdge(from, n.id);
  dagre.layout(graph);
  const places = new Map(
    nodes.map((n) => {
      const at = graph.node(n.id) as { x: number; y: number };
      return [n.id, { x: at.x - width / 2, y: at.y - height / 2 }] as const;
    }),
  );
  return { places, size: Math.max(...[...places.values()].map((p) => p.y)) + height };
}
