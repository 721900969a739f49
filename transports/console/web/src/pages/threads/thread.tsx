import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { missing } from "../../api/problem";
import { useDays, useThreadRuns, type Day } from "../../api/threads";
import type { Run, ThreadMessage } from "../../api/types";
import { runPath } from "../../app/search";
import { Transcript } from "../../log/transcript";
import { Ago, Empty, Failure, Loading, Panel, Took } from "../../ui/basics";
import { Message } from "../../ui/message";
import { StatusBadge } from "../../ui/status";
import { Tabs } from "../../ui/tabs";
import { ThreadActions } from "./actions";

/** OneThread is what was said on a thread by day, and its runs. */
export function OneThread({ conversationId }: { conversationId: string }) {
  const [tab, choose] = useState("history");
  const days = useDays(conversationId);
  const runs = useThreadRuns(conversationId, days.isSuccess, String(days.dataUpdatedAt));
  const [, go] = useLocation();
  if (missing(days.error)) return <Empty title="There is no such thread">It was deleted, has gone with the retention, or is somebody else’s.</Empty>;
  const list = (days.data?.pages ?? []).map((p) => p.snapshot);
  return (
    <section className="one-thread" aria-label="The thread">
      <header className="row wraps">
        <Link href="/threads" className="back">
          All threads
        </Link>
        <span className="mono muted clip grow">{runs[0]?.threadId ?? conversationId}</span>
        <ThreadActions conversationId={conversationId} latest={runs[0]} gone={() => go("/threads")} />
      </header>
      <Tabs
        label="Parts of the thread" chosen={tab} choose={choose}
        tabs={[
          { id: "history", name: "History" },
          { id: "runs", name: "Runs", count: runs.length },
        ]}
      >
        {tab === "runs" && <Runs runs={runs} />}
        {tab === "history" && (
          <div className="stack">
            {days.error && <Failure error={days.error} retry={() => void days.refetch()} />}
            {!days.data && !days.error && <Loading />}
            {days.hasNextPage && (
              <div>
                <button type="button" className="button small" disabled={days.isFetchingNextPage} onClick={() => void days.fetchNextPage()}>
                  The day before
                </button>
              </div>
            )}
            {list.toReversed().map((day) => day.day && <OneDay key={day.day} day={day} />)}
            {list.length > 0 && list.every((d) => d.messages.length === 0) && <Empty title="Nothing was said yet" />}
          </div>
        )}
      </Tabs>
    </section>
  );
}

const long = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });

// History keeps what belongs to tools beside the message, in its metadata.
function whole(m: ThreadMessage): ThreadMessage {
  const { toolCalls, toolCallId } = (m.metadata ?? {}) as Pick<ThreadMessage, "toolCalls" | "toolCallId">;
  return { ...m, ...(toolCalls && { toolCalls }), ...(toolCallId && { toolCallId }) };
}

function OneDay({ day }: { day: Day }) {
  const entries = useMemo(() => {
    const transcript = new Transcript();
    transcript.start(day.messages.map(whole), {});
    return transcript.entries;
  }, [day]);
  return (
    <section className="stack day">
      <h2>
        <time dateTime={day.day ?? undefined}>{long.format(new Date(`${day.day}T00:00:00Z`))}</time>
      </h2>
      {entries.map((entry) => (
        <Message key={entry.id} entry={entry} version={entry.version} />
      ))}
    </section>
  );
}

function Runs({ runs }: { runs: Run[] }) {
  if (runs.length === 0) return <Empty title="No runs">Those there were have been deleted.</Empty>;
  return (
    <Panel flush>
      <ul className="thread-runs">
        {runs.map((run) => (
          <li key={run.id} className="row wraps">
            <StatusBadge status={run.status} />
            <Link href={runPath(run)} className="clip grow">
              {run.inputQuery.trim() || `Run of ${run.workflowId}`}
            </Link>
            <span className="muted">{run.workflowId}</span>
            <Took from={run.startedAt} to={run.finishedAt} />
            <span className="muted">
              <Ago at={run.createdAt} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
