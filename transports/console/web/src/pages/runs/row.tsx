import { Link } from "wouter";
import type { Run } from "../../api/types";
import { runPath } from "../../app/search";
import { Ago, Took } from "../../ui/basics";
import { compact, money, opening } from "../../ui/format";
import { StatusBadge } from "../../ui/status";

export function Row({ run, others, picked, pick }: { run: Run; others: boolean; picked: boolean; pick: () => void }) {
  const title = opening(run.inputQuery) || run.id;
  return (
    <div className="run-row" data-picked={picked}>
      <input type="checkbox" aria-label={`Select ${title.slice(0, 60)}`} checked={picked} onChange={pick} />
      <span className="cell-status">
        <StatusBadge status={run.status} />
      </span>
      <span className="cell-title">
        <Link href={runPath(run)} className="clip">
          {title}
        </Link>
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
      <span className="right num muted nowrap cell-tokens">{spent(run)}</span>
    </div>
  );
}

function spent(run: Run): string {
  const sum = (pick: "inputTokens" | "outputTokens") => run[pick] ?? run.usage.reduce((n, u) => n + (u[pick] ?? 0), 0);
  const tokens = sum("inputTokens") + sum("outputTokens");
  if (tokens === 0) return "–";
  return run.cost ? `${compact(tokens)} · ${money(run.cost)}` : compact(tokens);
}
