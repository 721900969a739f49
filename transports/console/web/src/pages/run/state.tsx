import { useId, useState } from "react";
import { useKeys } from "../../app/keys";
import type { Run } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { CopyButton, Empty, Loading } from "../../ui/basics";
import { JsonTree } from "../../ui/json";
import * as icons from "../../ui/icons";
import { useBase } from "./use-base";

/** State is what was known, at any place of the log. */
export function State({ run, log, show }: { run: Run; log: RunLog; show: (event: number) => void }) {
  useBase(run, log);
  const { states, based } = log.transcript;
  const [chosen, setChosen] = useState<number | null>(null); // null is the latest, also while more come
  const id = useId();
  const last = states.length - 1;
  const at = Math.min(chosen ?? last, last);
  const to = (next: number) => setChosen(next >= last ? null : Math.max(0, next));
  useKeys("State", {
    "[": { does: "the change before", run: () => to(at - 1) },
    "]": { does: "the next change", run: () => to(at + 1) },
  });
  const known = states[at];
  if (!known) return log.complete ? <Empty title="The state was not changed">What was known when the run began is what is known now.</Empty> : <Loading />;
  const before = at > 0 ? states[at - 1]?.state : log.transcript.before;
  return (
    <div className="stack">
      <div className="scrub">
        <button type="button" className="button icon" aria-label="The change before" disabled={at === 0} onClick={() => to(at - 1)}>
          <span className="flip">
            <icons.Right />
          </span>
        </button>
        <input
          id={id} type="range" min={0} max={last} value={at} aria-label="Changes of the state" aria-valuetext={`change ${at + 1} of ${states.length}, event ${known.id}`}
          onChange={(e) => to(e.target.valueAsNumber)}
        />
        <button type="button" className="button icon" aria-label="The next change" disabled={at === last} onClick={() => to(at + 1)}>
          <icons.Right />
        </button>
        <span className="num nowrap">
          {at + 1} of {states.length}
        </span>
        <button type="button" className="button small" onClick={() => show(known.id)}>
          Event {known.id}
        </button>
        <CopyButton text={() => JSON.stringify(known.state, null, 2)} />
      </div>
      <p className="muted">
        {at === last ? "As it is now." : `As it was at event ${known.id}.`} What that change brought is marked.
        {!based && " What was known before the run is not in its log; this is what it has added."}
      </p>
      <div className="state-tree">
        <JsonTree value={known.state} before={before} depth={4} />
      </div>
    </div>
  );
}
