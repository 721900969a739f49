import {
  Background, BaseEdge, Controls, Handle, MarkerType, MiniMap, Position, ReactFlow, useReactFlow, useStore, type Edge, type EdgeProps, type Node, type NodeProps,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { memo, useEffect, useMemo, useState } from "react";
import type { NodeState, Workflow } from "../api/types";
import { Took, useMatch, useUnit } from "./basics";
import { boxes, grouped, layout, type Box } from "./graph-layout";
import { StatusBadge, tone, word } from "./status";
import "./workflow-graph.css";

type Status = NodeState["status"];
type GraphNode = Node<
  { box: Box; down: boolean; run: boolean; width: number; height: number; status: Status; states: NodeState[]; message: string; progress: number; act: (() => void) | undefined },
  "node"
>;
type GraphEdge = Edge<{ path: string }, "route">;

const types = { node: memo(NodeBox) };
const edgeTypes = { route: memo(Route) };
const many = 12; // boxes from which on a small map is shown
const crowd = 60; // boxes from which on only the visible ones are in the page

interface Props {
  workflow: Pick<Workflow, "name" | "nodes">;
  states?: NodeState[]; // of a run; without them, the definition
  live?: Map<string, { progress: number; message: string }>; // progress of nodes since the states were requested
  choose?: (node: string) => void;
}

/** WorkflowGraph draws a workflow with its conditions, and the states of a run's nodes. Alike nodes are one box, which opens with a click. */
export default function WorkflowGraph({ workflow, states, live, choose }: Props) {
  const down = useMatch("(max-width: 700px)"); // if there is more space below than beside
  const unit = useUnit();
  const [width, height] = [208 * unit, (states ? 84 : 64) * unit];
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const list = useMemo(() => boxes(workflow.nodes, unfolded), [workflow.nodes, unfolded]);
  const { places, routes, size } = useMemo(() => layout(list, width, height, down, unit), [list, width, height, down, unit]);
  const byId = new Map(states?.map((s) => [s.nodeId, s]));
  const statusOf = (box: Box) => together(box.nodes.map((n) => byId.get(n.id)?.status ?? "PENDING"));
  const nodes: GraphNode[] = list.map((box) => {
    const [first] = box.nodes;
    const state = byId.get(box.id);
    const told = state?.status === "RUNNING" ? live?.get(box.id) : undefined;
    const unfold = () => setUnfolded(new Set([...unfolded, box.id]));
    return {
      id: box.id, type: "node", position: places.get(box.id) ?? { x: 0, y: 0 }, draggable: false, width, height,
      data: {
        box, down, width, height, run: states !== undefined, status: statusOf(box), states: box.nodes.flatMap((n) => byId.get(n.id) ?? []),
        message: told?.message ?? itemsOf(state) ?? state?.messages.at(-1) ?? (first?.when ? `when ${first.when}` : ""), progress: told?.progress ?? state?.progress ?? 0,
        act: box.nodes.length > 1 ? unfold : choose && (() => choose(box.id)),
      },
    };
  });
  const edges: GraphEdge[] = list.flatMap((box) =>
    box.needs.map((from) => {
      const status = states && statusOf(box);
      const taken = status && !["PENDING", "SKIPPED"].includes(status);
      const id = `${from}→${box.id}`;
      return {
        id, type: "route", source: from, target: box.id, focusable: false, animated: status === "RUNNING", data: { path: routes.get(id) ?? "" },
        className: taken ? "taken" : status === "SKIPPED" ? "skipped" : "", markerEnd: { type: MarkerType.ArrowClosed },
      };
    }),
  );
  return (
    <div className="stack">
      {unfolded.size > 0 && (
        <div>
          <button type="button" className="button small" onClick={() => setUnfolded(new Set())}>
            Fold alike nodes
          </button>
        </div>
      )}
      <figure className="graph" aria-label={`The workflow ${workflow.name}`} style={{ height: Math.min((down || list.length > many ? 560 : 420) * unit, Math.max(150 * unit, size.y + 64 * unit)) }}>
        <ReactFlow
          nodes={nodes} edges={edges} nodeTypes={types} edgeTypes={edgeTypes} fitView fitViewOptions={whole} minZoom={0.1} maxZoom={1.6}
          nodesConnectable={false} nodesFocusable={false} edgesFocusable={false} elementsSelectable={false} preventScrolling={false} zoomOnScroll={false}
          onlyRenderVisibleElements={list.length > crowd} proOptions={{ hideAttribution: true }}
        >
          <Background gap={18} size={1} />
          <Controls showInteractive={false} position="bottom-right" />
          {list.length > many && !down && (
            <MiniMap<GraphNode> position="bottom-left" pannable zoomable ariaLabel="Map of the workflow" nodeColor={({ data }) => `var(--${data.run ? tone(data.status) : "idle"})`} />
          )}
          <Fitting places={places} />
        </ReactFlow>
      </figure>
    </div>
  );
}

const whole = { padding: 0.06, maxZoom: 1, minZoom: 0.45 };

// Fits the graph when the window or its boxes change.
function Fitting({ places }: { places: unknown }) {
  const { fitView } = useReactFlow();
  const width = useStore((s) => s.width);
  const height = useStore((s) => s.height);
  useEffect(() => void (width > 0 && height > 0 && fitView(whole)), [fitView, width, height, places]);
  return null;
}

function Route({ id, data, markerEnd }: EdgeProps<GraphEdge>) {
  return <BaseEdge id={id} path={data?.path ?? ""} markerEnd={markerEnd} />;
}

const order: Status[] = ["FAILED", "WAITING", "RUNNING", "CANCELLED", "PENDING", "COMPLETED", "SKIPPED"];

// The status of several nodes: the first in order that one of them has, or running once some of them are done.
function together(list: Status[]): Status {
  const found = order.find((s) => list.includes(s)) ?? "PENDING";
  return found === "PENDING" && list.includes("COMPLETED") ? "RUNNING" : found;
}

function NodeBox({ data: { box, status, states, down, width, height, run, message, progress, act } }: NodeProps<GraphNode>) {
  const [first] = box.nodes;
  const does = first?.agent ?? first?.tool ?? "wait"; // for a time, or for an answer
  const folded = box.nodes.length > 1;
  const error = states.find((s) => s.error)?.error;
  const Tag = act ? "button" : "div";
  return (
    <Tag
      {...(act && { type: "button" as const, onClick: act })}
      className={`node ${folded ? "folded" : ""}`} data-tone={run ? tone(status) : "idle"} data-status={run ? status : undefined} style={{ width, minHeight: height }}
    >
      <Handle type="target" position={down ? Position.Top : Position.Left} isConnectable={false} />
      <span className="row">
        <strong className="clip grow">{folded ? `${box.nodes.length} × ${does}` : box.id}</strong>
        {run && <StatusBadge status={status} />}
      </span>
      <span className="row muted">
        <span className="mono clip grow">{folded ? `${box.id} … ${box.nodes.at(-1)?.id}` : does}</span>
        {!folded && states[0]?.startedAt && <Took from={states[0].startedAt} to={states[0].completedAt} />}
      </span>
      <span className="row muted">
        <span className="clip">{error ? <span className="wrong">{error}</span> : folded && run ? counts(states) : message}</span>
      </span>
      {!folded && status === "RUNNING" && progress > 0 && <span className="meter" style={{ width: `${progress * 100}%` }} />}
      <Handle type="source" position={down ? Position.Bottom : Position.Right} isConnectable={false} />
    </Tag>
  );
}

// How far the items of a node's map are.
function itemsOf(state?: NodeState): string | undefined {
  const map = state?.map;
  return map ? `${map.done} of ${map.items} items${map.failed > 0 ? ` · ${map.failed} failed` : ""}` : undefined;
}

function counts(states: NodeState[]): string {
  const by = grouped(states, (s) => s.status);
  return order.flatMap((s) => (by.has(s) ? [`${by.get(s)?.length} ${word(s).toLowerCase()}`] : [])).join(" · ");
}
