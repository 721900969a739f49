import { useId, useState } from "react";
import { Link } from "wouter";
import { runPath } from "../../app/paths";
import { useKeys } from "../../app/keys";
import { useProject } from "../../app/context";
import type { Run } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import type { Known, States } from "../../log/states";
import { CopyButton, Empty, Failure, Loading } from "../../ui/basics";
import { brief } from "../../ui/format";
import { JsonTree } from "../../ui/json";
import * as icons from "../../ui/icons";
import { command } from "./curl";
import { useBase } from "./use-base";
import { useLook, useThreadStates } from "./use-states";

/** State is the state at any place of the log of the run or of its thread, initially at an event, 0 for the latest. */
export function State({ run, log, at, show }: { run: Run; log: RunLog; at: number; show: (event: number) => void }) {
  useBase(run, log);
  const [whole, setWhole] = useState(false);
  const thread = useThreadStates(run, whole);
  const states = whole ? thread.data : log.transcript.states;
  return (
    <div className="stack">
      <label className="check">
        <input type="checkbox" checked={whole} onChange={(e) => setWhole(e.target.checked)} />
        Over all runs of the thread
      </label>
      {thread.error && <Failure error={thread.error} retry={() => void thread.refetch()} />}
      {!states || (states.length === 0 && !log.complete) ? (
        !thread.error && <Loading />
      ) : states.length === 0 ? (
        <Empty title="No state changes">The run has not changed the state.</Empty>
      ) : (
        <Scrubber key={String(whole)} run={run} states={states} event={at} show={show} />
      )}
    </div>
  );
}

function Scrubber({ run, states, event, show }: { run: Run; states: States; event: number; show: (event: number) => void }) {
  const [chosen, setChosen] = useState(() => (event > 0 ? Math.max(0, states.indexAt(event)) : null)); // null is the latest, even when more arrive
  const project = useProject();
  const id = useId();
  const last = states.length - 1;
  const at = Math.min(chosen ?? last, last);
  const known = useLook(states, at);
  const to = (next: number) => setChosen(next >= last ? null : Math.max(0, next));
  useKeys("State", {
    "[": { does: "previous change", run: () => to(at - 1) },
    "]": { does: "next change", run: () => to(at + 1) },
  });
  const path = `/api/v1/conversations/${encodeURIComponent(run.conversationId)}/agent-runs/${encodeURIComponent(run.id)}/snapshot`;
  return (
    <>
      <div className="scrub">
        <button type="button" className="button icon" aria-label="Previous change" disabled={at === 0} onClick={() => to(at - 1)}>
          <span className="flip">
            <icons.Right />
          </span>
        </button>
        <input
          id={id} type="range" min={0} max={last} value={at} aria-label="State changes"
          aria-valuetext={`change ${at + 1} of ${states.length}, event ${states.idAt(at)}`} onChange={(e) => to(e.target.valueAsNumber)}
        />
        <button type="button" className="button icon" aria-label="Next change" disabled={at === last} onClick={() => to(at + 1)}>
          <icons.Right />
        </button>
        <span className="num nowrap">
          {at + 1} of {states.length}
        </span>
        {known && <Where known={known} run={run} show={show} />}
        <CopyButton text={() => JSON.stringify(known?.state, null, 2)} />
        <CopyButton text={() => command(`${path}?projectId=${encodeURIComponent(project)}`)} label="Copy curl" />
      </div>
      <p className="muted">
        {at === last ? "The current state." : `The state at event ${states.idAt(at)}.`} The parts that the change has set are marked.
        {!states.based && " The log does not contain the state before the run; this is the part that the run has added."}
      </p>
      {known ? (
        <div className="state-tree">
          <JsonTree value={known.state} before={known.before} depth={4} />
        </div>
      ) : (
        <Loading />
      )}
    </>
  );
}

// Links the event of a change, on the page of its run.
function Where({ known, run, show }: { known: Known; run: Run; show: (event: number) => void }) {
  const foreign = known.runId !== "" && known.runId !== run.id;
  if (!foreign) {
    return (
      <button type="button" className="button small" onClick={() => show(known.id)}>
        Event {known.id}
      </button>
    );
  }
  const path = runPath({ ...run, id: known.runId });
  return (
    <Link className="button small" href={`${path}${path.includes("?") ? "&" : "?"}tab=events&event=${known.id}`}>
      Event {known.id} of run {brief(known.runId)}
    </Link>
  );
}
