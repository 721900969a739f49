import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useImperativeHandle, useLayoutEffect, useRef, type Ref } from "react";
import type { Logged } from "../../api/types";
import { Boundary } from "../../app/boundary";
import { useUnit } from "../../ui/basics";
import { short } from "../../ui/short";
import { summary } from "./filter";

/** Rows lets a page control its rows. */
export interface Rows {
  show(index: number, align: "auto" | "center" | "end"): void;
}

interface Props {
  ref: Ref<Rows>;
  list: Logged[]; // grows in place; count is its length
  count: number;
  chosen: number;
  choose: (id: number) => void;
}

const height = 30; // height of .event with normal letter size

/** EventRows is a virtual list of events. */
export const EventRows = memo(function EventRows({ ref, list, count, chosen, choose }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const unit = useUnit();
  const rows = useVirtualizer({ count, getScrollElement: () => frame.current, estimateSize: () => height * unit, overscan: 8 });
  useLayoutEffect(() => rows.measure(), [rows, unit]);
  useImperativeHandle(ref, () => ({ show: (index, align) => rows.scrollToIndex(index, { align }) }), [rows]);
  return (
    <div ref={frame} className="rows" tabIndex={0} role="region" aria-label="Events">
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((row) => {
          const logged = list[row.index];
          return logged && <Row key={row.key} logged={logged} top={row.start} chosen={logged.id === chosen} choose={choose} />;
        })}
      </div>
    </div>
  );
});

function Kind({ event }: { event: Logged["event"] }) {
  return (
    <>
      <span className="type clip" data-family={event.type.split("_")[0]}>
        {event.type}
      </span>
      <span className="about clip">{summary(event)}</span>
    </>
  );
}

const Row = memo(function Row({ logged: { id, event }, top, chosen, choose }: { logged: Logged; top: number; chosen: boolean; choose: (id: number) => void }) {
  return (
    <button type="button" className="event" aria-pressed={chosen} style={{ transform: `translateY(${top}px)` }} onClick={() => choose(id)}>
      <span className="id num">{id}</span>
      <Boundary failed={() => <span className="about clip">{short(event)}</span>}>
        <Kind event={event} />
      </Boundary>
    </button>
  );
});
