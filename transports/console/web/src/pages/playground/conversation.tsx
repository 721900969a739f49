import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { over } from "../../api/queries";
import type { Run } from "../../api/types";
import { runPath } from "../../app/paths";
import type { ThreadLog } from "../../log/threadlog";
import type { Entry } from "../../log/transcript";
import { Answer } from "../../ui/answer";
import { Loading, Panel, Took } from "../../ui/basics";
import { opening } from "../../ui/format";
import * as icons from "../../ui/icons";
import { Message, plainText } from "../../ui/message";
import { StatusBadge } from "../../ui/status";
import { examplesFor } from "./examples";
import type { Worker } from "./setup";
import type { Ask } from "./use-ask";

interface Props {
  log: ThreadLog;
  runs: Run[];
  ask: Ask;
  worker: Worker;
  say: (text: string) => void;
}

/** Conversation is the thread's messages and open questions. */
export function Conversation({ log, runs, ask, worker, say }: Props) {
  const { entries } = log.transcript;
  const [editing, setEditing] = useState("");
  const frame = useRef<HTMLDivElement>(null);
  const stuck = useRef(true); // follow the end until the user scrolls up
  const latest = runs[0];
  const waiting = runs.find((r) => r.status === "WAITING" && r.interrupts.length > 0);
  const free = !log.running && !ask.busy && runs.every((r) => over(r.status));
  const rows = useVirtualizer({
    count: entries.length,
    getScrollElement: () => frame.current,
    estimateSize: () => 110,
    getItemKey: (i) => entries[i]?.id ?? i,
    overscan: 8,
  });
  const height = rows.getTotalSize();
  useLayoutEffect(() => {
    if (stuck.current) frame.current?.scrollTo({ top: frame.current.scrollHeight });
  }, [log.version, latest, waiting, height]);
  const asks = useRef<HTMLDivElement>(null);
  const asked = waiting?.interrupts.map((i) => i.id).join() ?? "";
  useLayoutEffect(() => {
    if (!asks.current || !frame.current || asks.current.offsetHeight < frame.current.clientHeight) return;
    stuck.current = false; // a question is shown from its beginning
    frame.current.scrollTop += asks.current.getBoundingClientRect().top - frame.current.getBoundingClientRect().top;
  }, [asked]);
  if (entries.length === 0 && runs.length === 0) return <Beginning ready={log.complete} worker={worker} say={say} />;
  return (
    <div
      ref={frame} className="conversation" tabIndex={0} role="region" aria-label="Conversation"
      onScroll={({ currentTarget: f }) => (stuck.current = f.scrollHeight - f.scrollTop - f.clientHeight < 60)}
    >
      {!log.complete && <Loading />}
      <div className="entries" style={{ height }}>
        {rows.getVirtualItems().map((row) => {
          const entry = entries[row.index];
          return (
            entry && (
              <div key={row.key} ref={rows.measureElement} data-index={row.index} className="said" style={{ transform: `translateY(${row.start}px)` }}>
                {entry.id === editing ? (
                  <Editing
                    entry={entry} close={() => setEditing("")}
                    send={(content) => {
                      setEditing("");
                      ask.edit(entry, content);
                    }}
                  />
                ) : (
                  <Message
                    entry={entry} version={entry.version}
                    actions={entry.role === "user" && free ? <Tools edit={() => setEditing(entry.id)} again={() => ask.again(entry)} /> : undefined}
                  />
                )}
              </div>
            )
          );
        })}
      </div>
      {runs.filter((r) => r.status === "QUEUED" && r.interrupts.length === 0 && !entries.some((e) => e.runId === r.id)).reverse().map((r) => (
        <p key={r.id} className="queued muted">
          <StatusBadge status="QUEUED" /> <span className="clip">{opening(r.inputQuery)}</span>
        </p>
      ))}
      {waiting && (
        <div ref={asks}>
          <Panel title="Waiting for you" className="waits">
            <Answer key={asked} runId={waiting.id} user={waiting.user} interrupts={waiting.interrupts} calls={entries.flatMap((e) => e.calls)} />
          </Panel>
        </div>
      )}
      {latest && <Outcome run={latest} />}
    </div>
  );
}

function Tools({ edit, again }: { edit: () => void; again: () => void }) {
  return (
    <>
      <button type="button" className="button plain icon small" aria-label="Edit" title="Edit" onClick={edit}>
        <icons.Edit />
      </button>
      <button type="button" className="button plain icon small" aria-label="Another answer" title="Another answer" onClick={again}>
        <icons.Refresh />
      </button>
    </>
  );
}

function Outcome({ run }: { run: Run }) {
  return (
    <footer className="outcome">
      {run.error && (
        <div className="notice wrap" data-tone="bad">
          <icons.Warn />
          <span>
            {run.error.message} {run.error.code && <code>{run.error.code}</code>}
          </span>
        </div>
      )}
      <p className="row wraps muted">
        <StatusBadge status={run.status} />
        <span role="status" className="hidden-text">
          {over(run.status) ? "The answer is complete." : "The agent is answering."}
        </span>
        {run.startedAt && <Took from={run.startedAt} to={run.finishedAt} />}
        <Link href={runPath(run)}>Show this run</Link>
      </p>
    </footer>
  );
}

function Editing({ entry, send, close }: { entry: Entry; send: (content: string) => void; close: () => void }) {
  const [text, setText] = useState(() => plainText(entry.content));
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <form
      className="message editing" data-role="user"
      onSubmit={(e) => {
        e.preventDefault();
        send(text);
      }}
    >
      <textarea ref={field} className="input" aria-label="Your message" rows={Math.min(12, text.split("\n").length + 1)} value={text} onChange={(e) => setText(e.target.value)} />
      <p className="muted">Sending removes all messages after this one.</p>
      <div className="row">
        <button type="submit" className="button primary small" disabled={text.trim() === ""}>
          Send
        </button>
        <button type="button" className="button small" onClick={close}>
          Leave it
        </button>
      </div>
    </form>
  );
}

function Beginning({ ready, worker, say }: { ready: boolean; worker: Worker; say: (text: string) => void }) {
  const examples = examplesFor(worker);
  const choose = (text: string) => {
    say(text);
    document.getElementById("say")?.focus();
  };
  return (
    <div className="conversation begins">
      {ready && (
        <>
          <div className="empty">
            <h2>{worker.name ? `Talk to ${worker.name}` : "Send a message"}</h2>
            <p>The thread is stored: you can close this page and return to its address later.</p>
          </div>
          {examples.length > 0 && (
            <div className="row wraps examples" role="group" aria-label="Examples">
              {examples.map(({ name, text }) => (
                <button key={name} type="button" className="button" onClick={() => choose(text)}>
                  {name}
                </button>
              ))}
            </div>
          )}
        </>
      )}
    </div>
  );
}
