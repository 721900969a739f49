import dagre from "@dagrejs/dagre";
import { Background, Controls, Handle, MarkerType, Position, ReactFlow, useReactFlow, useStore, type Edge, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { memo, useEffect, useMemo } from "react";
import type { NodeState, Workflow, WorkflowNode } from "../api/types";
import { Took, useMatch, useUnit } from "./basics";
import { StatusBadge, tone } from "./status";
import "./workflow-graph.css";

type GraphNode = Node<{ node: WorkflowNode; down: boolean; run: boolean; width: number; height: number; state: NodeState | undefined; message: string; progress: number }, "node">;

const types = { node: memo(NodeBox) };

interface Props {
  workflow: Pick<Workflow, "name" | "nodes">;
  states?: NodeState[]; // of a run; without them, the definition
  live?: Map<string, { progress: number; message: string }>; // progress of nodes since the states were requested
}

/** WorkflowGraph draws a workflow with its conditions, and the states of a run's nodes. */
export default function WorkflowGraph({ workflow, states, live }: Props) {
  const down = useMatch("(max-width: 700px)"); // if there is more space below than beside
  const unit = useUnit();
  const [width, height] = [208 * unit, (states ? 84 : 64) * unit];
  const { places, size } = useMemo(() => layout(workflow.nodes, width, height, down, unit), [workflow.nodes, width, height, down, unit]);
  const of = (id: string) => states?.find((s) => s.nodeId === id);
  const nodes: GraphNode[] = workflow.nodes.map((node) => {
    const state = of(node.id);
    const told = state?.status === "RUNNING" ? live?.get(node.id) : undefined;
    return {
      id: node.id, type: "node", position: places.get(node.id) ?? { x: 0, y: 0 }, draggable: false, width, height,
      data: { node, state, down, width, height, run: states !== undefined, message: told?.message ?? state?.messages.at(-1) ?? "", progress: told?.progress ?? state?.progress ?? 0 },
    };
  });
  const edges: Edge[] = workflow.nodes.flatMap((node) =>
    node.needs.map((from) => {
      const status = of(node.id)?.status;
      const taken = status && !["PENDING", "SKIPPED"].includes(status);
      return {
        id: `${from}→${node.id}`, source: from, target: node.id, focusable: false, animated: status === "RUNNING",
        className: taken ? "taken" : status === "SKIPPED" ? "skipped" : "", markerEnd: { type: MarkerType.ArrowClosed },
      };
    }),
  );
  return (
    <figure className="graph" aria-label={`The workflow ${workflow.name}`} style={{ height: Math.min((down ? 560 : 420) * unit, Math.max(150 * unit, size + 64 * unit)) }}>
      <ReactFlow
        nodes={nodes} edges={edges} nodeTypes={types} fitView fitViewOptions={whole} minZoom={0.2} maxZoom={1.6}
        nodesConnectable={false} nodesFocusable={false} edgesFocusable={false} elementsSelectable={false} preventScrolling={false} zoomOnScroll={false}
        proOptions={{ hideAttribution: true }}
      >
        <Background gap={18} size={1} />
        <Controls showInteractive={false} position="bottom-right" />
        <Fitting />
      </ReactFlow>
    </figure>
  );
}

const whole = { padding: 0.12, maxZoom: 1 };

// Fits the graph when the window is resized.
function Fitting() {
  const { fitView } = useReactFlow();
  const width = useStore((s) => s.width);
  const height = useStore((s) => s.height);
  useEffect(() => void (width > 0 && height > 0 && fitView(whole)), [fitView, width, height]);
  return null;
}

function NodeBox({ data: { node, state, down, width, height, run, message, progress } }: NodeProps<GraphNode>) {
  const status = state?.status ?? "PENDING";
  return (
    <div className="node" data-tone={run ? tone(status) : "idle"} data-status={run ? status : undefined} style={{ width, minHeight: height }}>
      <Handle type="target" position={down ? Position.Top : Position.Left} isConnectable={false} />
      <div className="row">
        <strong className="clip grow">{node.id}</strong>
        {run && <StatusBadge status={status} />}
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

function layout(nodes: WorkflowNode[], width: number, height: number, down: boolean, unit: number) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: down ? "TB" : "LR", nodesep: 24 * unit, ranksep: (down ? 36 : 64) * unit });
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
