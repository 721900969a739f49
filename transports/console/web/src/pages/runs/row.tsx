import { Link } from "wouter";
import type { Run } from "../../api/types";
import { useMoney } from "../../app/context";
import { runPath } from "../../app/paths";
import { Ago, Took } from "../../ui/basics";
import { compact, opening } from "../../ui/format";
import { StatusBadge } from "../../ui/status";
import { Activity } from "./activity";

export function Row({ run, others, picked, pick }: { run: Run; others: boolean; picked: boolean; pick: () => void }) {
  const title = opening(run.inputQuery) || run.id;
  const money = useMoney();
  return (
    <div className="run-row" data-picked={picked}>
      <input type="checkbox" aria-label={`Select ${title.slice(0, 60)}`} checked={picked} onChange={pick} />
      <span className="cell-status">
        <StatusBadge status={run.status} />
      </span>
      <span className="cell-title">
        <Link href={runPath(run)} className="clip" dir="auto">
          {title}
        </Link>
        {run.status === "RUNNING" && <Activity run={run} />}
        {run.error && (
          <span className="clip wrong">
            {run.error.code}: {run.error.message}
          </span>
        )}
      </span>
      <span className="clip cell-agent">{run.workflowId}</span>
      {others && <span className="clip cell-user muted">{run.user}</span>}
      <span className="cell-began muted">
        <Ago at={run.startedAt ?? run.createdAt} />
      </span>
      <span className="right cell-took">
        <Took from={run.startedAt} to={run.finishedAt} />
      </span>
      <span className="right num muted nowrap cell-tokens">{tokens(run)}</span>
      <span className="right num muted nowrap cell-cost">{run.cost ? money(run.cost) : "–"}</span>
    </div>
  );
}

function tokens(run: Run): string {
  const sum = (pick: "inputTokens" | "outputTokens") => run[pick] ?? run.usage.reduce((n, u) => n + (u[pick] ?? 0), 0);
  const n = sum("inputTokens") + sum("outputTokens");
  return n === 0 ? "–" : compact(n);
}
