import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ask, save } from "../../api/client";
import type { Budget, Usage, Window } from "../../api/types";
import { useProject, useSeesOthers } from "../../app/context";
import { Failure, Panel } from "../../ui/basics";
import { amount, clock, compact, number } from "../../ui/format";

const parts = [
  { id: "model", name: "Model" },
  { id: "agent", name: "Agent" },
  { id: "user", name: "User" },
] as const;
type Part = (typeof parts)[number]["id"];

const names: Record<Part, (row: Usage["items"][number]) => string> = {
  model: (row) => [row.provider, row.model].filter(Boolean).join(" · ") || "–",
  agent: (row) => row.agent ?? "–",
  user: (row) => row.user ?? "–",
};

const most = 12; // rows

/** Spending is what model calls have used by model, agent or user, and the budgets. It is absent while there is neither. */
export function Spending({ window }: { window: Window }) {
  const project = useProject();
  const others = useSeesOthers();
  const [by, setBy] = useState<Part>("model");
  const base = `/api/projects/${encodeURIComponent(project)}`;
  const usage = useQuery({
    queryKey: ["usage", project, window, by],
    queryFn: () => ask<Usage>(`${base}/usage?by=${by}&since=${since(window)}`),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  const budgets = useQuery({ queryKey: ["budgets", project], queryFn: () => ask<{ items: Budget[] }>(`${base}/budgets`), refetchInterval: 10_000 });
  const csv = useMutation({ mutationFn: () => save(`${base}/usage?by=day,user,agent,model&since=${since(window)}`, "text/csv", "usage.csv") });
  const rows = (usage.data?.items ?? []).toSorted((a, b) => (b.cost ?? 0) - (a.cost ?? 0) || b.tokens - a.tokens);
  const list = budgets.data?.items ?? [];
  if (rows.length === 0 && list.length === 0 && !usage.error && !budgets.error) return null;
  const priced = rows.some((row) => row.cost !== null);
  return (
    <div className="columns">
      <Panel
        title={window === "week" ? "Usage in 7 days" : "Usage today"} flush className="wide"
        actions={
          <>
            <span className="segments row" role="group" aria-label="Sum up by">
              {parts.filter((p) => others || p.id !== "user").map((p) => (
                <button key={p.id} type="button" className="button small" aria-pressed={p.id === by} onClick={() => setBy(p.id)}>
                  {p.name}
                </button>
              ))}
            </span>
            <button type="button" className="button plain small" onClick={() => csv.mutate()} disabled={csv.isPending}>
              CSV
            </button>
          </>
        }
      >
        {(usage.error ?? csv.error) && <Failure error={usage.error ?? csv.error} />}
        {rows.length === 0 ? (
          <p className="quiet muted">No model calls.</p>
        ) : (
          <div className="scroll-x" tabIndex={0} role="region" aria-label="Usage">
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">{parts.find((p) => p.id === by)?.name}</th>
                  <th scope="col" className="right">Calls</th>
                  <th scope="col" className="right">Tokens in</th>
                  <th scope="col" className="right">Tokens out</th>
                  {priced && <th scope="col" className="right">Cost</th>}
                </tr>
              </thead>
              <tbody>
                {rows.slice(0, most).map((row) => (
                  <tr key={names[by](row)}>
                    <td className="clip" title={names[by](row)}>{names[by](row)}</td>
                    <td className="right num">{number(row.calls)}</td>
                    <td className="right num">{compact(row.inputTokens)}</td>
                    <td className="right num">{compact(row.outputTokens)}</td>
                    {priced && <td className="right num">{row.cost === null ? "–" : amount(row.cost, row.currency ?? "")}</td>}
                  </tr>
                ))}
              </tbody>
            </table>
            {rows.length > most && <p className="quiet muted">and {number(rows.length - most)} more, in the CSV</p>}
          </div>
        )}
      </Panel>
      {(list.length > 0 || budgets.error) && (
        <Panel title="Budgets" flush>
          {budgets.error && <Failure error={budgets.error} />}
          <ul className="budgets">
            {list.slice(0, most).map((b) => (
              <li key={`${b.name}/${b.of ?? ""}`}>
                <Limit budget={b} />
              </li>
            ))}
          </ul>
          {list.length > most && <p className="quiet muted">and {number(list.length - most)} more</p>}
        </Panel>
      )}
    </div>
  );
}

function Limit({ budget: b }: { budget: Budget }) {
  const whose = b.scope === "run" ? "each run" : `${b.scope} ${b.of ?? ""}`;
  const limit = amount(b.limit, b.unit);
  return (
    <>
      <div className="row">
        <span className="grow clip">
          {b.name} <span className="muted">{whose}</span>
        </span>
        <span className="num nowrap" data-bad={b.used !== null && b.used >= b.limit}>
          {b.used === null ? `up to ${limit}` : `${b.unit === "tokens" ? compact(b.used) : amount(b.used, b.unit)} of ${limit}`}
        </span>
      </div>
      {b.used !== null && <meter aria-label={`${b.name} ${whose}`} min={0} max={b.limit} high={b.limit * 0.8} value={Math.min(b.used, b.limit)} />}
      <span className="muted">
        {b.over === "ask" ? "then asks an operator" : "then stops"}
        {b.resetsAt && <>, resets {clock(b.resetsAt)}</>}
      </span>
    </>
  );
}

// The first day of a window, in UTC.
function since(window: Window): string {
  const days = window === "week" ? 6 : 0;
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}
