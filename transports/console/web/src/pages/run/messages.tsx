import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { over } from "../../api/queries";
import type { Run } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { useProject } from "../../app/context";
import { CopyButton, Empty, Loading } from "../../ui/basics";
import { Message } from "../../ui/message";
import { command } from "./curl";

/** Messages are the messages of the run. */
export function Messages({ run, log }: { run: Run; log: RunLog }) {
  const { entries } = log.transcript;
  const project = useProject();
  const frame = useRef<HTMLDivElement>(null);
  const stuck = useRef(true); // follow the end until the user scrolls up
  const rows = useVirtualizer({
    count: entries.length,
    getScrollElement: () => frame.current,
    estimateSize: () => 120,
    getItemKey: (i) => entries[i]?.id ?? i,
    overscan: 2,
  });
  const live = !over(run.status);
  const height = rows.getTotalSize();
  useEffect(() => {
    if (live && stuck.current) frame.current?.scrollTo({ top: frame.current.scrollHeight });
  }, [live, height, log.version]);
  if (entries.length === 0) return log.complete ? <Empty title="No messages yet" /> : <Loading />;
  const path = `/api/v1/threads/${encodeURIComponent(run.conversationId)}/messages?projectId=${encodeURIComponent(project)}`;
  return (
    <div className="stack">
      <div className="row">
        <span className="grow" />
        <CopyButton text={() => command(path)} label="Copy curl of the thread’s messages" />
      </div>
      <div
        ref={frame} className="messages" tabIndex={0} role="region" aria-label="Messages"
        onScroll={({ currentTarget: f }) => (stuck.current = f.scrollHeight - f.scrollTop - f.clientHeight < 40)}
      >
        <div style={{ height, position: "relative" }}>
          {rows.getVirtualItems().map((row) => {
            const entry = entries[row.index];
            return (
              entry && (
                <div key={row.key} ref={rows.measureElement} data-index={row.index} className="message-row" style={{ transform: `translateY(${row.start}px)` }}>
                  <Message entry={entry} version={entry.version} />
                </div>
              )
            );
          })}
        </div>
      </div>
    </div>
  );
}
