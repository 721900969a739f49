import { useEffect, useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { missing } from "../../api/problem";
import { useDays, useThread, useThreadRuns, type Day } from "../../api/threads";
import type { Run, Thread, ThreadMessage } from "../../api/types";
import { useSeesOthers } from "../../app/context";
import { useTitle } from "../../app/title";
import { runPath } from "../../app/paths";
import { Transcript, type Entry } from "../../log/transcript";
import { Ago, Empty, Failure, Loading, Panel, Took } from "../../ui/basics";
import { brief, opening } from "../../ui/format";
import { Message } from "../../ui/message";
import { MessageList } from "../../ui/message-list";
import { StatusBadge } from "../../ui/status";
import { Tabs } from "../../ui/tabs";
import { ThreadActions } from "./actions";

/** OneThread is the messages of a thread by day, from the newest one back, and its runs. */
export function OneThread({ conversationId }: { conversationId: string }) {
  const [tab, choose] = useState("history");
  const days = useDays(conversationId);
  const runs = useThreadRuns(conversationId, days.isSuccess, "");
  const turns = runs.map((r) => `${r.id}/${r.status}/${r.finishedAt ?? ""}`).join();
  const { refetch } = days;
  useEffect(() => {
    if (turns) void refetch(); // read the messages again when a run has changed
  }, [turns, refetch]);
  const { data: thread } = useThread(conversationId);
  useTitle(thread ? nameOf(thread) : "", "Threads");
  const [, go] = useLocation();
  const others = useSeesOthers();
  const rows = useMemo(() => (days.data?.pages ?? []).map((p) => rowsOf(p.snapshot)).reverse().flat(), [days.data]);
  if (missing(days.error)) return <Empty title="Thread not found">It was deleted, has expired, or belongs to another user.</Empty>;
  const list = (days.data?.pages ?? []).map((p) => p.snapshot);
  return (
    <section className="one-thread" aria-label="The thread">
      <header className="row wraps">
        <Link href="/threads" className="back">
          All threads
        </Link>
        <div className="grow thread-title">
          <h2 dir="auto" title={thread && nameOf(thread)}>{thread ? nameOf(thread) : "Thread"}</h2>
          <p className="row muted">
            <span className="mono clip">{thread?.threadId ?? conversationId}</span>
            {others && thread && <span className="clip">of {thread.user}</span>}
            {thread?.archived && <span className="badge">archived</span>}
          </p>
        </div>
        {thread && <ThreadActions thread={thread} latest={runs[0]} gone={() => go("/threads")} />}
      </header>
      <Tabs
        label="Thread sections" chosen={tab} choose={choose}
        tabs={[
          { id: "history", name: "History" },
          { id: "runs", name: "Runs", count: runs.length },
        ]}
      >
        {tab === "runs" && <Runs runs={runs} all={`/runs?thread=${encodeURIComponent(conversationId)}`} />}
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
            {rows.length > 0 && (
              <MessageList count={rows.length} keyOf={(i) => rows[i]?.key ?? ""} draw={(i) => rows[i] && <HistoryRow row={rows[i]} />} end version={rows} />
            )}
            {list.length > 0 && list.every((d) => d.messages.length === 0) && <Empty title="No messages yet" />}
          </div>
        )}
      </Tabs>
    </section>
  );
}

/** nameOf returns the title of a thread, or the beginning of its last message. */
export const nameOf = (t: Thread) => t.title || t.asked?.trim() || brief(t.threadId);

const long = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });

// The history has tool data in the metadata of messages.
function whole(m: ThreadMessage): ThreadMessage {
  const { toolCalls, toolCallId } = (m?.metadata ?? {}) as Pick<ThreadMessage, "toolCalls" | "toolCallId">;
  return { ...m, ...(Array.isArray(toolCalls) && { toolCalls }), ...(typeof toolCallId === "string" && { toolCallId }) };
}

// A day, or a message of it.
interface Row {
  key: string;
  day: string;
  entry?: Entry;
}

function rowsOf({ day, messages }: Day): Row[] {
  if (!day) return [];
  const transcript = new Transcript();
  transcript.start(messages.map(whole), {});
  return [{ key: day, day }, ...transcript.entries.map((entry) => ({ key: `${day}/${entry.id}`, day, entry }))];
}

function HistoryRow({ row: { day, entry } }: { row: Row }) {
  if (entry) return <Message entry={entry} version={entry.version} />;
  return (
    <h2 className="day">
      <time dateTime={day}>{long.format(new Date(`${day}T00:00:00Z`))}</time>
    </h2>
  );
}

function Runs({ runs, all }: { runs: Run[]; all: string }) {
  if (runs.length === 0) return <Empty title="No runs">The thread’s runs were deleted.</Empty>;
  return (
    <Panel flush title={runs.length < 50 ? "Newest first" : "The newest 50"} actions={<Link href={all}>Show in Runs</Link>}>
      <ul className="thread-runs">
        {runs.map((run) => (
          <li key={run.id} className="row wraps">
            <StatusBadge status={run.status} />
            <Link href={runPath(run)} className="clip grow" dir="auto">
              {opening(run.inputQuery) || `Run of ${run.workflowId}`}
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
