import { useQuery } from "@tanstack/react-query";
import { runURL } from "../../api/queries";
import type { components } from "../../api/schema";
import { ask } from "../../api/client";
import type { Run } from "../../api/types";
import { useProject } from "../../app/context";
import { Failure, Loading, Panel, Took } from "../../ui/basics";
import * as icons from "../../ui/icons";
import { Content } from "../../ui/message";
import { StatusBadge } from "../../ui/status";

type Step = components["schemas"]["Step"];

/** NodeDetail shows the input and the output of a node's executions, latest first. turns must change when a step starts or ends. */
export function NodeDetail({ run, node, turns, close }: { run: Run; node: string; turns: string; close: () => void }) {
  const project = useProject();
  const { data, error, refetch } = useQuery({
    queryKey: ["steps", project, run.id, run.user ?? "", node, turns],
    queryFn: () => steps(runURL(project, run, "/steps"), node),
    placeholderData: (before) => before,
  });
  const own = data?.filter((s) => s.nodeId === node).reverse() ?? []; // the placeholder may be another node's
  return (
    <Panel
      title={<span className="mono wrap">{node}</span>}
      actions={
        <button type="button" className="button plain icon small" aria-label="Close the node" title="Close" onClick={close}>
          <icons.Close />
        </button>
      }
    >
      <div className="stack">
        {error && <Failure error={error} retry={() => void refetch()} />}
        {!data && !error && <Loading />}
        {data && own.length === 0 && <p className="muted">It has not started.</p>}
        {own.map((step) => (
          <section key={step.id} className="stack" aria-label={`Step ${step.stepNumber}`}>
            <p className="row wraps muted">
              <StatusBadge status={step.status} /> Step {step.stepNumber}
              {step.item && <span className="mono clip">[{step.item.index}] {step.item.key}</span>} <Took from={step.startedAt} to={step.completedAt} />
            </p>
            <div className="beside">
              <Side title="Input" text={step.input} />
              <Side title="Output" text={step.error ?? step.output ?? ""} />
            </div>
          </section>
        ))}
      </div>
    </Panel>
  );
}

function Side({ title, text }: { title: string; text: string }) {
  return (
    <div className="node-side" tabIndex={0} role="group" aria-label={title}>
      <p className="muted">{title}</p>
      {text ? <Content content={text} /> : <p className="muted">None yet.</p>}
    </div>
  );
}

// All steps of a node: a run may have more than a page.
async function steps(url: string, nodeId: string): Promise<Step[]> {
  const list: Step[] = [];
  for (let cursor = ""; ; ) {
    const query = new URLSearchParams({ nodeId, limit: "500", ...(cursor && { cursor }) });
    const { items, nextCursor } = await ask<{ items: Step[]; nextCursor: string | null }>(`${url}${url.includes("?") ? "&" : "?"}${query}`);
    list.push(...items);
    if (!nextCursor) return list;
    cursor = nextCursor;
  }
}
