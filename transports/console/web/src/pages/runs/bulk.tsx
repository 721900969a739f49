import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { rerun } from "../../api/actions";
import { made } from "../../api/name";
import { over, runURL } from "../../api/queries";
import { ask as send } from "../../api/client";
import { Problem, say } from "../../api/problem";
import type { Run } from "../../api/types";
import { useMay, useMe, useProject } from "../../app/context";
import { useKeys } from "../../app/keys";
import { comparePath } from "../../app/paths";
import { Confirm } from "../../ui/dialog";
import { opening } from "../../ui/format";
import { StatusBadge } from "../../ui/status";
import { toast } from "../../ui/toast";

/** Bulk retries, cancels or deletes all selected runs, after a confirmation. */
export function Bulk({ runs, keep }: { runs: Run[]; keep: (runs: Run[]) => void }) {
  const project = useProject();
  const queries = useQueryClient();
  const operator = useMay("operator");
  const admin = useMay("admin");
  const me = useMe();
  const [asks, ask] = useState<"retry" | "cancel" | "delete" | null>(null); // the action to confirm
  const [done, setDone] = useState<{ n: number; of: number } | null>(null); // progress of the action
  const own = (r: Run) => r.user === undefined || r.user === me.user;
  const cancellable = runs.filter((r) => !over(r.status) && (operator || own(r)));
  const failed = runs.filter((r) => r.status === "FAILED");
  const removable = runs.filter((r) => over(r.status) && (admin || own(r)));
  useKeys("Selected runs", {
    ...(cancellable.length > 0 && { c: { does: "cancel it", run: () => ask("cancel") } }),
    ...(failed.length > 0 && { e: { does: "run it again", run: () => ask("retry") } }),
    ...(removable.length > 0 && { d: { does: "delete it", run: () => ask("delete") } }),
  });
  const all = async (list: Run[], act: (run: Run) => Promise<unknown>, word: string) => {
    const problems = new Map<Run, unknown>();
    for (const [i, run] of list.entries()) {
      setDone({ n: i + 1, of: list.length });
      await patiently(() => act(run)).catch((error: unknown) => problems.set(run, error));
    }
    setDone(null);
    ask(null);
    if (problems.size === 0) toast(`${many(list)} ${word}.`);
    else toast(`${problems.size} of ${many(list)} not ${word}: ${[...new Set([...problems.values()].map(say))].slice(0, 3).join(" ")}`, "bad");
    keep([...problems.keys()]); // keep failed runs selected
    void queries.invalidateQueries({ queryKey: ["runs"] });
  };
  const retry = (list: Run[]) => {
    const keys = new Map(list.map((r) => [r, made("retry")]));
    return all(list, (r) => rerun(project, r, keys.get(r) ?? ""), "started again");
  };
  const busy = done !== null;
  const two = pair(runs);
  return (
    <div className="bulk" role="region" aria-label="Selected runs">
      <span className="grow num">{done ? `${done.n} of ${done.of} …` : `${runs.length} selected`}</span>
      {cancellable.length > 0 && (
        <button type="button" className="button" disabled={busy} onClick={() => ask("cancel")}>
          Cancel {cancellable.length}
        </button>
      )}
      {failed.length > 0 && (
        <button type="button" className="button" disabled={busy} onClick={() => ask("retry")}>
          Retry {failed.length}
        </button>
      )}
      {removable.length > 0 && (
        <button type="button" className="button danger" disabled={busy} onClick={() => ask("delete")}>
          Delete {removable.length}
        </button>
      )}
      {two && (
        <Link className="button" href={comparePath(...two)}>
          Compare
        </Link>
      )}
      <button type="button" className="button plain" disabled={busy} onClick={() => keep([])}>
        Select none
      </button>
      {asks === "cancel" && cancellable.length > 0 && (
        <Confirm
          title={`Cancel ${many(cancellable)}?`} act="Cancel them" busy={busy} onClose={() => ask(null)}
          onAct={() => void all(cancellable, (r) => send(runURL(project, r, "/cancel"), { method: "POST" }), "cancelled")}
        >
          <p>Running runs stop, queued ones do not start, and open questions are cancelled. Their messages stay.</p>
          <Names runs={cancellable} />
        </Confirm>
      )}
      {asks === "retry" && failed.length > 0 && (
        <Confirm title={`Retry ${many(failed)}?`} act="Run again" busy={busy} onClose={() => ask(null)} onAct={() => void retry(failed)}>
          <p>Each begins again in a new thread of yours, with its messages and its state. Its tools are called again.</p>
          <Names runs={failed} />
        </Confirm>
      )}
      {asks === "delete" && removable.length > 0 && (
        <Confirm
          title={`Delete ${many(removable)}?`} act="Delete" busy={busy} onClose={() => ask(null)}
          onAct={() => void all(removable, (r) => send(runURL(project, r), { method: "DELETE" }), "deleted")}
        >
          <p>This also deletes their events and messages, and cannot be undone.</p>
          <Names runs={removable} />
        </Confirm>
      )}
    </div>
  );
}

// Two runs, the older one first.
function pair(runs: Run[]): [Run, Run] | null {
  const [a, b] = runs;
  if (!a || !b || runs.length > 2) return null;
  return a.createdAt < b.createdAt ? [a, b] : [b, a];
}

const many = (runs: Run[]) => (runs.length === 1 ? "1 run" : `${runs.length} runs`);

const shown = 5; // runs that the action applies to

function Names({ runs }: { runs: Run[] }) {
  return (
    <ul className="bulk-names">
      {runs.slice(0, shown).map((r) => (
        <li key={`${r.conversationId}/${r.id}`} className="row">
          <StatusBadge status={r.status} />
          <span className="clip grow">{opening(r.inputQuery) || r.id}</span>
          <span className="muted clip">{r.workflowId}</span>
        </li>
      ))}
      {runs.length > shown && <li className="muted">and {runs.length - shown} more</li>}
    </ul>
  );
}

// Retry-After of a busy server.
async function patiently(act: () => Promise<unknown>): Promise<unknown> {
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 429) throw error;
      await new Promise((done) => setTimeout(done, 1_000 * Math.max(1, error.retryAfter)));
    }
  }
}
