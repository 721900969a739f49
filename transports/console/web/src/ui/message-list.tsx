import { useVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useRef, type ReactNode } from "react";

/**
 * MessageList is a scrolling list of which only the visible rows are in the page. With end it opens at its end and follows it while version
 * changes, until the user scrolls up. Rows that are added before the first one do not move the visible ones.
 */
export function MessageList({ count, keyOf, draw, end, version }: {
  count: number;
  keyOf: (index: number) => string;
  draw: (index: number) => ReactNode;
  end: boolean;
  version: unknown;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  const rows = useVirtualizer({ count, getScrollElement: () => frame.current, estimateSize: () => 120, getItemKey: keyOf, overscan: 2 });
  const height = rows.getTotalSize();
  const first = keyOf(0);
  const before = useRef({ first, height });
  useLayoutEffect(() => {
    const f = frame.current;
    if (f && end && stuck.current) f.scrollTo({ top: f.scrollHeight });
    else if (f && first !== before.current.first) f.scrollTop += height - before.current.height;
    before.current = { first, height };
  }, [end, first, height, version]);
  return (
    <div
      ref={frame} className="messages" tabIndex={0} role="region" aria-label="Messages"
      onScroll={({ currentTarget: f }) => (stuck.current = f.scrollHeight - f.scrollTop - f.clientHeight < 40)}
    >
      <div style={{ height, position: "relative" }}>
        {rows.getVirtualItems().map((row) => (
          <div key={row.key} ref={rows.measureElement} data-index={row.index} className="message-row" style={{ transform: `translateY(${row.start}px)` }}>
            {draw(row.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
