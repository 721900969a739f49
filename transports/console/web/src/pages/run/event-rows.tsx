import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useImperativeHandle, useLayoutEffect, useRef, type Ref } from "react";
import type { Logged } from "../../api/types";
import { Boundary } from "../../app/boundary";
import { useUnit } from "../../ui/basics";
import { useCompact } from "../../app/theme";
import { number } from "../../ui/format";
import { short } from "../../ui/short";
import { summary } from "./filter";
import type { Row } from "./fold";

/** Rows lets a page control its rows. */
export interface Rows {
  show(index: number, align: "auto" | "center" | "end"): void;
}

interface Props {
  ref: Ref<Rows>;
  list: Row[]; // grows in place; count is its length
  count: number;
  last: number; // number of events: the last row may have more
  chosen: number;
  choose: (id: number) => void;
  toggle: (id: number) => void; // opens or closes a run of events
}

const heights = { usual: 30, compact: 24 }; // of .event with normal letter size

/** EventRows is a virtual list of events. */
export const EventRows = memo(function EventRows({ ref, list, count, chosen, choose, toggle }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const unit = useUnit();
  const height = heights[useCompact() ? "compact" : "usual"];
  const rows = useVirtualizer({ count, getScrollElement: () => frame.current, estimateSize: () => height * unit, overscan: 8 });
  useLayoutEffect(() => rows.measure(), [rows, unit, height]);
  useImperativeHandle(ref, () => ({ show: (index, align) => rows.scrollToIndex(index, { align }) }), [rows]);
  return (
    <div ref={frame} className="rows" tabIndex={0} role="region" aria-label="Events">
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((row) => {
          const { logged, more, open } = list[row.index] ?? {};
          if (!logged || !more) return null;
          return (
            <EventRow
              key={row.key} logged={logged} more={more} count={more.length} open={open ?? false} top={row.start} chosen={more.length === 0 && logged.id === chosen}
              act={more.length > 0 ? toggle : choose}
            />
          );
        })}
      </div>
    </div>
  );
});

function Kind({ event, more }: { event: Logged["event"]; more: Logged[] }) {
  return (
    <>
      <span className="type clip" data-family={event.type.split("_")[0]}>
        {event.type}
      </span>
      <span className="about clip" dir="auto">
        {more.length > 0 && <span className="badge num">{number(more.length + 1)} events</span>} {start(event, more)}
      </span>
    </>
  );
}

// The beginning of the text that events continue.
function start(event: Logged["event"], more: Logged[]): string {
  let text = summary(event);
  for (let i = 0; i < more.length && text.length < 200; i++) text += summary((more[i] as Logged).event);
  return text;
}

const EventRow = memo(function EventRow({ logged: { id, event }, more, open, top, chosen, act }: {
  logged: Logged;
  more: Logged[]; // grows in place; count is its length
  count: number;
  open: boolean;
  top: number;
  chosen: boolean;
  act: (id: number) => void;
}) {
  const state = more.length > 0 ? { "aria-expanded": open } : { "aria-pressed": chosen };
  return (
    <button type="button" className="event" {...state} style={{ transform: `translateY(${top}px)` }} onClick={() => act(id)}>
      <span className="id num">{id}</span>
      <Boundary failed={() => <span className="about clip">{short(event)}</span>}>
        <Kind event={event} more={more} />
      </Boundary>
    </button>
  );
});
