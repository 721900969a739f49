import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { useWaiting } from "../../api/queries";
import type { Waiting } from "../../api/types";
import { useSeesOthers } from "../../app/context";
import { useKeys } from "../../app/keys";
import { useTitle } from "../../app/title";
import { runPath } from "../../app/paths";
import { Answer } from "../../ui/answer";
import { Ago, Empty, Failure, Loading, Panel } from "../../ui/basics";
import "./waiting.css";

/** The page Waiting: open questions of runs, oldest first. */
export default function Page() {
  useTitle("Waiting");
  const { data, error, refetch } = useWaiting();
  const list = useRef<HTMLDivElement>(null);
  const walk = (step: number) => {
    const all = [...(list.current?.children ?? [])] as HTMLElement[];
    const at = all.findIndex((e) => e.contains(document.activeElement));
    const next = all[Math.max(0, Math.min(at + step, all.length - 1))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  useKeys("Waiting", { j: { does: "next question", run: () => walk(1) }, k: { does: "previous question", run: () => walk(-1) } });
  const runs = byRun(data?.items ?? []);
  const moving = useMoving(runs.flat().map((w) => w.id).join());
  return (
    <div className="page">
      <header className="page-head">
        <h1>{data?.items.some((w) => !w.answerable) ? "Waiting for an answer" : "Waiting for you"}</h1>
        {runs.length > 0 && (
          <span className="muted num" aria-live="polite">
            {runs.length === 1 ? "1 run" : `${runs.length}${data?.nextCursor ? " or more" : ""} runs`}, oldest first
          </span>
        )}
      </header>
      {error && !data && <Failure error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && runs.length === 0 && (
        <Empty title="Nothing to answer">Approvals and questions of runs appear here.</Empty>
      )}
      <div ref={list} className={moving ? "stack asked-list moving" : "stack asked-list"}>
        {runs.map((asked) => (
          <div key={asked.map((w) => w.id).join()} tabIndex={-1} role="group" aria-label={asked[0]?.message || asked[0]?.agent || "A waiting run"}>
            <Asked asked={asked} />
          </div>
        ))}
      </div>
      {data?.nextCursor && <p className="muted">There are more. They appear when these are answered.</p>}
    </div>
  );
}

// Whether the list changed a moment ago: a click that was meant for the previous question must not answer this one.
function useMoving(shown: string): boolean {
  const [still, stand] = useState("");
  useEffect(() => {
    const id = setTimeout(() => stand(shown), 600);
    return () => clearTimeout(id);
  }, [shown]);
  return still !== "" && still !== shown;
}

// The questions of a run are answered together.
function byRun(items: Waiting[]): Waiting[][] {
  const runs = new Map<string, Waiting[]>();
  for (const w of items) {
    const key = `${w.conversationId}/${w.runId}`;
    runs.set(key, [...(runs.get(key) ?? []), w]);
  }
  return [...runs.values()];
}

function Asked({ asked }: { asked: Waiting[] }) {
  const [first] = asked;
  const others = useSeesOthers();
  if (!first) return null;
  return (
    <Panel
      className="waits"
      title={first.agent ?? "Workflow"}
      actions={
        <>
          {others && <span className="muted clip">for {first.user}</span>}
          <span className="muted nowrap">
            asked <Ago at={first.createdAt} />
          </span>
          <Link href={runPath({ id: first.runId, user: first.user })} className="nowrap">
            Show run
          </Link>
        </>
      }
    >
      <Answer runId={first.runId} user={others ? first.user : undefined} interrupts={asked} />
    </Panel>
  );
}
