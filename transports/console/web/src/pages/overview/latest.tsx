import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { ask } from "../../api/client";
import type { Run, Status } from "../../api/types";
import { useProject } from "../../app/context";
import { runPath } from "../../app/paths";
import { Ago, Failure, Loading, Panel } from "../../ui/basics";
import { opening } from "../../ui/format";
import { StatusBadge } from "../../ui/status";

/** Latest is the latest runs, optionally with a status. */
export function Latest({ title, status, empty }: { title: string; status?: Status; empty: string }) {
  const project = useProject();
  const query = status ? `status=${status}&` : "";
  const { data, error } = useQuery({
    queryKey: ["runs", project, "latest", status ?? ""],
    queryFn: () => ask<{ items: Run[] }>(`/api/projects/${encodeURIComponent(project)}/agent-runs?${query}limit=6`),
  });
  return (
    <Panel title={title} flush actions={<Link href={status ? `/runs?status=${status.toLowerCase()}` : "/runs"}>All</Link>}>
      {error ? <Failure error={error} /> : !data ? <Loading /> : null}
      {data?.items.length === 0 && <p className="quiet muted">{empty}</p>}
      <ul className="brief-list">
        {data?.items.map((run) => (
          <li key={`${run.conversationId}/${run.id}`}>
            {!status && <StatusBadge status={run.status} />}
            <span className="grow two">
              <Link href={runPath(run)} className="clip" dir="auto">
                {opening(run.inputQuery) || run.id}
              </Link>
              {run.error && <span className="muted clip">{run.error.message}</span>}
            </span>
            <span className="muted clip">{run.workflowId}</span>
            <span className="muted">
              <Ago at={run.finishedAt ?? run.createdAt} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
