import { useCallback, useEffect, useRef, useState } from "react";
import { over } from "../../api/queries";
import type { Logged, Run } from "../../api/types";
import { useProject } from "../../app/context";
import { useKeys } from "../../app/keys";
import type { RunLog } from "../../log/runlog";
import { CopyButton, Empty, Loading } from "../../ui/basics";
import { number } from "../../ui/format";
import { JsonTree } from "../../ui/json";
import { command } from "./curl";
import { EventRows, type Rows } from "./event-rows";
import { useFiltered } from "./filter";
import { useFolded, type Row } from "./fold";

/** Events is the log: every event, filtered by type and text, with the pieces of a text in one row. */
export function Events({ run, log, at: chosen, choose: setChosen, showState }: {
  run: Run;
  log: RunLog;
  at: number; // the chosen event, 0 for none
  choose: (event: number) => void;
  showState: (event: number) => void;
}) {
  const [types, setTypes] = useState<ReadonlySet<string>>(new Set());
  const [text, setText] = useState("");
  const [follows, setFollows] = useState(!over(run.status) && chosen === 0);
  const list = useFiltered(log, types, text);
  const [folds, setFolds] = useState(true);
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const folded = useFolded(list, folds, opened);
  const rows = useRef<Rows>(null);
  const selected = chosen > 0 ? folded.findIndex((row) => isOf(row, chosen)) : -1;
  const go = (index: number) => {
    const to = Math.max(0, Math.min(index, folded.length - 1));
    const next = folded[to];
    if (!next) return;
    setFollows(false);
    setChosen(next.logged.id);
    rows.current?.show(to, "auto");
  };
  useKeys("Events", {
    j: { does: "the next event", run: () => go(selected + 1) },
    k: { does: "the event before", run: () => go(selected < 0 ? 0 : selected - 1) },
    f: { does: "follow the end", run: () => setFollows(!follows) },
  });
  const { length } = folded;
  useEffect(() => {
    if (follows && length > 0) rows.current?.show(length - 1, "end");
  }, [follows, length]);
  const sought = useRef(chosen);
  useEffect(() => {
    const index = sought.current > 0 ? folded.findIndex((row) => isOf(row, sought.current)) : -1;
    const row = folded[index];
    if (!row) return;
    if (row.more.length > 0 && !row.open) {
      setOpened(new Set([row.logged.id])); // then its rows are found
      return;
    }
    sought.current = 0;
    rows.current?.show(index, "center");
  }, [length, folded]);
  const latest = useRef((_: number) => {});
  latest.current = (id) => setChosen(chosen === id ? 0 : id);
  const choose = useCallback((id: number) => latest.current(id), []); // the same function for all rows
  const fold = useCallback(
    (id: number) =>
      setOpened((before) => {
        const next = new Set(before);
        if (!next.delete(id)) next.add(id);
        return next;
      }),
    [],
  );
  const toggle = (type: string) => {
    const next = new Set(types);
    if (!next.delete(type)) next.add(type);
    setTypes(next);
  };
  if (log.events.length === 0) return log.complete ? <Empty title="No events yet" /> : <Loading />;
  const detail = chosen > 0 ? log.events.find((l) => l.id === chosen) : undefined;
  return (
    <div className="stack">
      <div className="row wraps">
        <input className="input search-events" type="search" aria-label="Text in events" placeholder="Text in events" value={text} onChange={(e) => setText(e.target.value)} />
        <span className="muted num grow">
          {list.length === log.events.length ? `${number(list.length)} events` : `${number(list.length)} of ${number(log.events.length)} events`}
        </span>
        <label className="check">
          <input type="checkbox" checked={folds} onChange={(e) => setFolds(e.target.checked)} />
          Fold texts
        </label>
        <label className="check">
          <input type="checkbox" checked={follows} onChange={(e) => setFollows(e.target.checked)} />
          Follow the end
        </label>
      </div>
      <div className="chips events-chips" role="group" aria-label="Types">
        {[...log.types].map(([type, count]) => (
          <button key={type} type="button" className="chip" aria-pressed={types.has(type)} onClick={() => toggle(type)}>
            {type.toLowerCase().replaceAll("_", " ")} <span className="num muted">{number(count)}</span>
          </button>
        ))}
      </div>
      <div className="events" data-detail={detail !== undefined}>
        <EventRows ref={rows} list={folded} count={length} last={list.length} chosen={chosen} choose={choose} toggle={fold} />
        {detail && <Detail logged={detail} run={run} showState={log.transcript.states.indexAt(detail.id) < 0 ? undefined : showState} />}
      </div>
    </div>
  );
}

// Reports whether a row shows an event: a closed run of events shows all of them.
function isOf({ logged, more, open }: Row, id: number): boolean {
  if (more.length === 0) return logged.id === id;
  return !open && logged.id <= id && id <= (more.at(-1) as Logged).id;
}

function Detail({ logged, run, showState }: { logged: Logged; run: Run; showState: ((event: number) => void) | undefined }) {
  const project = useProject();
  const path = `/api/v1/conversations/${encodeURIComponent(run.conversationId)}/agent-runs/${encodeURIComponent(run.id)}/events`;
  const query = `?after_event_id=${logged.id - 1}&limit=1&projection=seed&projectId=${encodeURIComponent(project)}`;
  return (
    <aside className="event-detail" aria-label={`Event ${logged.id}`}>
      <div className="row wraps">
        <strong className="grow num">Event {logged.id}</strong>
        {showState && (
          <button type="button" className="button plain small" onClick={() => showState(logged.id)}>
            State here
          </button>
        )}
        <CopyButton text={() => JSON.stringify(logged.event, null, 2)} label="Copy JSON" />
        <CopyButton text={() => command(path + query)} label="Copy curl" />
      </div>
      <JsonTree key={logged.id} value={logged.event} depth={3} />
    </aside>
  );
}
