import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import type { Run } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { Scale } from "../../log/scale";
import type { Item, Kind } from "../../log/timeline";
import { Empty, Loading, useNow } from "../../ui/basics";
import { Drawn } from "../../ui/drawn";
import { duration, number } from "../../ui/format";
import * as icons from "../../ui/icons";
import { Content, ToolCall } from "../../ui/message";
import { ModelCallDetail } from "./model-call";

const looks: Record<Kind, () => React.ReactNode> = {
  run: icons.Runs,
  step: icons.Offers,
  text: icons.Threads,
  reasoning: icons.Thought,
  tool: icons.Tool,
  model: icons.Model,
  wait: icons.Waiting,
};

/** Timeline draws the activities of a run over time, live. */
export function Timeline({ run, log, live, at, choose, show }: {
  run: Run;
  log: RunLog;
  live: boolean;
  at: number; // the first event of the line that is open, 0 for none
  choose: (event: number) => void;
  show: (event: number) => void;
}) {
  const { last } = log.timeline;
  const items = log.timeline.lines();
  const now = useNow(live ? 250 : 0);
  const frame = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => frame.current,
    estimateSize: () => 34,
    getItemKey: (i) => items[i]?.key ?? i,
    overscan: 12,
  });
  const sought = useRef(at); // from the address
  const found = sought.current > 0 ? items.findIndex((item) => item.eventId === sought.current) : -1;
  useEffect(() => {
    if (found < 0) return;
    sought.current = 0;
    rows.scrollToIndex(found, { align: "center" });
  }, [found, rows]);
  if (items.length === 0) {
    return log.complete ? <Empty title="No events yet">The run is queued.</Empty> : <Loading />;
  }
  const end = live ? Math.max(last, now) : last;
  const scale = new Scale(log.timeline.items, end);
  return (
    <div className="timeline">
      <div className="axis" aria-hidden="true">
        <span className="muted">{items.length === 1 ? "1 line" : `${items.length} lines`}</span>
        <span className="ticks num">
          {[0, 0.25, 0.5, 0.75, 1].map((part) => (
            <span key={part}>{part === 0 ? "0" : duration(part * scale.worked)}</span>
          ))}
        </span>
        <span />
      </div>
      <div ref={frame} className="lines" tabIndex={0} role="region" aria-label="Timeline">
        <ol style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const item = items[row.index];
            if (!item) return null;
            return (
              <li key={row.key} ref={rows.measureElement} data-index={row.index} style={{ transform: `translateY(${row.start}px)` }}>
                <Drawn value={item}>
                  <Line item={item} scale={scale} end={end} open={at === item.eventId} toggle={() => choose(at === item.eventId ? 0 : item.eventId)} />
                </Drawn>
                {at === item.eventId && (
                  <Drawn value={item}>
                    <Detail run={run} item={item} log={log} show={show} />
                  </Drawn>
                )}
              </li>
            );
          })}
        </ol>
      </div>
    </div>
  );
}

function Line({ item, scale, end, open, toggle }: { item: Item; scale: Scale; end: number; open: boolean; toggle: () => void }) {
  const Icon = looks[item.kind];
  const stop = item.end ?? end;
  const [left, right] = [scale.at(item.start), scale.at(stop)];
  const took = duration(Math.max(0, stop - item.start));
  return (
    <button type="button" className="line" data-kind={item.kind} data-mark={item.mark} aria-expanded={open} onClick={toggle}>
      <span className="hidden-text">{item.mark === "bad" ? `failed ${item.kind}` : item.kind}</span>
      <span className="name" style={{ paddingLeft: `${item.depth}rem` }}>
        <Icon />
        <span className="clip">{item.name}</span>
        {item.detail && item.kind !== "run" && <span className="muted clip detail">{item.detail}</span>}
      </span>
      <span className="track">
        <span className="bar" style={{ left: `${left * 100}%`, width: `max(3px, ${(right - left) * 100}%)` }}>
          {item.progress !== null && item.mark === "open" && <span className="progress" style={{ width: `${item.progress * 100}%` }} />}
        </span>
      </span>
      <span className="took num">{took}</span>
    </button>
  );
}

function Detail({ run, item, log, show }: { run: Run; item: Item; log: RunLog; show: (event: number) => void }) {
  const entry = log.transcript.entries.find((e) => e.id === item.messageId);
  const call = item.toolCallId ? log.transcript.entries.flatMap((e) => e.calls).find((c) => c.id === item.toolCallId) : undefined;
  const agent = log.events.find((e) => e.id === item.eventId)?.event.agent; // of a node or a sub-agent
  return (
    <div className="line-detail stack">
      {item.callId ? <ModelCallDetail run={run} callId={item.callId} agent={agent} open={item.end === null} /> : call ? <ToolCall call={call} version={entry?.version ?? 0} /> : entry ? <Content content={entry.content} /> : item.detail && <p className="wrap">{item.detail}</p>}
      <div className="row wraps muted">
        {item.step && <span>in {item.step}</span>}
        {item.events > 0 && <span>{item.events === 1 ? "1 delta" : `${number(item.events)} deltas`}</span>}
        {item.progress !== null && <span>{Math.round(item.progress * 100)} %</span>}
        <button type="button" className="button small" onClick={() => show(item.eventId)}>
          Event {item.eventId}
        </button>
      </div>
    </div>
  );
}
