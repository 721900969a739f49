import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { runURL } from "../../api/actions";
import { ask } from "../../api/client";
import { Problem, say } from "../../api/problem";
import { over } from "../../api/queries";
import type { Run } from "../../api/types";
import { useMay, useMe, useProject } from "../../app/context";
import { Confirm } from "../../ui/dialog";
import { toast } from "../../ui/toast";

/** Bulk does something to all runs that are picked. */
export function Bulk({ runs, clear }: { runs: Run[]; clear: () => void }) {
  const project = useProject();
  const queries = useQueryClient();
  const operator = useMay("operator");
  const admin = useMay("admin");
  const me = useMe();
  const [done, setDone] = useState(-1); // of what goes on, -1 for nothing
  const [asks, setAsks] = useState(false);
  const own = (r: Run) => r.user === undefined || r.user === me.user;
  const cancellable = runs.filter((r) => !over(r.status) && (operator || own(r)));
  const removable = runs.filter((r) => over(r.status) && (admin || own(r)));
  const all = async (list: Run[], act: (run: Run) => Promise<unknown>, word: string) => {
    let failed = "";
    for (const [i, run] of list.entries()) {
      setDone(i);
      await patiently(() => act(run)).catch((error: unknown) => (failed = say(error)));
    }
    setDone(-1);
    setAsks(false);
    toast(failed || `${list.length} ${list.length === 1 ? "run" : "runs"} ${word}.`, failed ? "bad" : "good");
    clear();
    void queries.invalidateQueries({ queryKey: ["runs"] });
  };
  const busy = done >= 0;
  return (
    <div className="bulk" role="region" aria-label="What is picked">
      <span className="grow num">{busy ? `${done + 1} of ${runs.length} …` : `${runs.length} picked`}</span>
      {cancellable.length > 0 && (
        <button
          type="button" className="button" disabled={busy}
          onClick={() => void all(cancellable, (r) => ask(runURL(project, r, "/cancel"), { method: "POST" }), "cancelled")}
        >
          Cancel {cancellable.length}
        </button>
      )}
      {removable.length > 0 && (
        <button type="button" className="button danger" disabled={busy} onClick={() => setAsks(true)}>
          Delete {removable.length}
        </button>
      )}
      <button type="button" className="button plain" disabled={busy} onClick={clear}>
        Pick none
      </button>
      {asks && (
        <Confirm
          title={`Delete ${removable.length} ${removable.length === 1 ? "run" : "runs"}?`} act="Delete" busy={busy} onClose={() => setAsks(false)}
          onAct={() => void all(removable, (r) => ask(runURL(project, r), { method: "DELETE" }), "deleted")}
        >
          <p>Their events and messages go with them. This cannot be undone.</p>
        </Confirm>
      )}
    </div>
  );
}

// A server that was asked too often says when to come back.
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
