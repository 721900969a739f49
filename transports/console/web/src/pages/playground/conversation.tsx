import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { over } from "../../api/queries";
import type { Attachment, Run } from "../../api/types";
import { runPath } from "../../app/search";
import type { ThreadLog } from "../../log/threadlog";
import type { Entry } from "../../log/transcript";
import { Answer } from "../../ui/answer";
import { Loading, Panel, Took } from "../../ui/basics";
import * as icons from "../../ui/icons";
import { Message, plainText } from "../../ui/message";
import { StatusBadge } from "../../ui/status";
import { Files } from "./attachments";
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

/** Conversation is what was said on the thread, and what it waits for. */
export function Conversation({ log, runs, ask, worker, say }: Props) {
  const { entries } = log.transcript;
  const [editing, setEditing] = useState("");
  const frame = useRef<HTMLDivElement>(null);
  const stuck = useRef(true); // to the end, until somebody scrolls up
  const latest = runs[0];
  const waiting = runs.find((r) => r.status === "WAITING" && r.interrupts.length > 0);
  const free = !log.running && !ask.busy && runs.every((r) => over(r.status));
  useLayoutEffect(() => {
    if (stuck.current) frame.current?.scrollTo({ top: frame.current.scrollHeight });
  }, [log.version, latest, waiting]);
  if (entries.length === 0 && runs.length === 0) return <Beginning ready={log.complete} worker={worker} say={say} />;
  return (
    <div
      ref={frame} className="conversation" tabIndex={0} role="region" aria-label="Conversation"
      onScroll={({ currentTarget: f }) => (stuck.current = f.scrollHeight - f.scrollTop - f.clientHeight < 60)}
    >
      {!log.complete && <Loading />}
      {entries.map((entry) =>
        entry.id === editing ? (
          <Editing
            key={entry.id} entry={entry} close={() => setEditing("")}
            send={(content) => {
              setEditing("");
              ask.edit(entry, content);
            }}
          />
        ) : (
          <div key={entry.id} className="said">
            <Message
              entry={entry} version={entry.version}
              actions={entry.role === "user" && free ? <Tools edit={() => setEditing(entry.id)} again={() => ask.again(entry)} /> : undefined}
            />
            <Files list={attachmentsOf(entry)} />
          </div>
        ),
      )}
      {runs.filter((r) => r.status === "QUEUED" && r.interrupts.length === 0 && !entries.some((e) => e.runId === r.id)).reverse().map((r) => (
        <p key={r.id} className="queued muted">
          <StatusBadge status="QUEUED" /> <span className="clip">{r.inputQuery}</span>
        </p>
      ))}
      {waiting && (
        <Panel title="Waiting for you" className="waits">
          <Answer key={waiting.interrupts.map((i) => i.id).join()} runId={waiting.id} user={waiting.user} interrupts={waiting.interrupts} calls={entries.flatMap((e) => e.calls)} />
        </Panel>
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
          {over(run.status) ? "The answer has ended." : "An answer is on its way."}
        </span>
        {run.startedAt && <Took from={run.startedAt} to={run.finishedAt} />}
        <Link href={runPath(run)}>Look into this run</Link>
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
      <p className="muted">What followed this message is put away.</p>
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
            <h2>{worker.name ? `Talk to ${worker.name}` : "Say something"}</h2>
            <p>All that happens on this thread is kept: you may close this page, and come back to its address.</p>
          </div>
          {examples.length > 0 && (
            <div className="row wraps examples" role="group" aria-label="Things to try">
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

function attachmentsOf(entry: Entry): Attachment[] {
  const list = (entry.message?.metadata as { attachments?: unknown } | undefined)?.attachments;
  return Array.isArray(list) ? (list as Attachment[]) : [];
}
