import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { over, useReruns } from "../../api/queries";
import type { Run } from "../../api/types";
import { useMoney, useSeesOthers } from "../../app/context";
import type { RunLog } from "../../log/runlog";
import { Clock, CopyIcon, Left, Took } from "../../ui/basics";
import { comparePath, runPath } from "../../app/paths";
import { brief, compact, number } from "../../ui/format";
import { StatusBadge } from "../../ui/status";
import { Actions } from "./actions";

const mostReruns = 5;
const most = 4_000; // characters of the input in the title; the rest is on the tab Input

/** Header is the summary of a run. */
export function Header({ run, log, onDelete }: { run: Run; log: RunLog; onDelete: () => void }) {
  const others = useSeesOthers();
  const [whole, setWhole] = useState(false);
  const title = run.inputQuery.slice(0, most).trim() || `Run of ${run.workflowId}`;
  return (
    <header className="run-head">
      <div className="run-title">
        <div className="row">
          <StatusBadge status={run.status} />
          <span className="muted mono clip">{run.id}</span>
          <CopyIcon label="Copy the run’s id" text={run.id} />
        </div>
        <h1 dir="auto" className={whole ? "whole" : undefined}>{title}</h1>
        {title.length > 180 && (
          <button type="button" className="button plain small" aria-expanded={whole} onClick={() => setWhole(!whole)}>
            {whole ? "Less" : "More"}
          </button>
        )}
      </div>
      <Actions run={run} log={log} onDelete={onDelete} />
      <dl className="facts">
        <Fact name={run.agent === null ? "Workflow" : "Agent"}>{run.workflowId}</Fact>
        {others && run.user !== undefined && <Fact name="User">{run.user}</Fact>}
        <Fact name="Thread">
          <Link href={`/threads/${encodeURIComponent(run.conversationId)}`}>{run.threadTitle || brief(run.threadId)}</Link>
        </Fact>
        <Fact name="Began">
          <Clock at={run.startedAt ?? run.createdAt} />
        </Fact>
        <Fact name={over(run.status) ? "Took" : "For"}>
          <Took from={run.startedAt} to={run.finishedAt} />
        </Fact>
        {run.waiting && (
          <Fact name={run.waiting.until ? "Waits until" : "Waits since"}>
            <Clock at={run.waiting.until ?? run.waiting.since} />
            {run.waiting.until && (
              <>
                , for <Left to={run.waiting.until} />
              </>
            )}
            , <Why run={run} waiting={run.waiting} />
          </Fact>
        )}
        <Tokens run={run} />
        {run.generation > 1 && <Fact name="Generation">{run.generation}</Fact>}
        {(run.attempts ?? 0) > 0 && <Fact name="Attempts">{run.attempts}</Fact>}
        {run.parentRunId && (
          <Fact name="Started by">
            <Link href={`/runs/${encodeURIComponent(run.parentRunId)}`}>{brief(run.parentRunId)}</Link>
          </Fact>
        )}
        <Reruns run={run} />
        {run.overrides && (
          <Fact name="Overrides">
            <span title={JSON.stringify(run.overrides, null, 2).slice(0, 2_000)}>{Object.entries(run.overrides).map(([of, to]) => (of === "model" ? String(to) : of)).join(", ")}</span>
          </Fact>
        )}
        <Fact name="Events">
          <span data-whole={log.complete}>
            {number(log.events.length)}
            {!log.complete && " …"}
          </span>
        </Fact>
      </dl>
    </header>
  );
}

/** Why is the reason why a run does not begin or go on. */
function Why({ run, waiting: { reason, behind, position = 0 } }: { run: Run; waiting: NonNullable<Run["waiting"]> }) {
  const place = position > 1 ? ` · ${position - 1} before it` : "";
  if (behind !== undefined) {
    return (
      <>
        behind <Link href={`/runs/${encodeURIComponent(behind)}`}>{brief(behind)}</Link> of this thread
        {reason === "thread_waiting" && ", which waits for an answer"}
        {place}
      </>
    );
  }
  const full = {
    user_limit: "its user’s share is used",
    project_limit: "the project’s share is used",
    agent_limit: `${run.workflowId} executes as many runs as it may`,
    server_limit: "the server executes as many runs as it may",
    no_server: "no server offers what it needs",
    provider_pace: "the model’s provider takes no calls",
    time: "as its agent has asked",
    event: "for an event from outside",
    thread_busy: "",
    thread_waiting: "",
  };
  return <>{full[reason] + place}</>;
}

function Tokens({ run }: { run: Run }) {
  const money = useMoney();
  const sum = (pick: "inputTokens" | "outputTokens") => run[pick] ?? run.usage.reduce((n, u) => n + (u[pick] ?? 0), 0);
  const [input, output] = [sum("inputTokens"), sum("outputTokens")];
  if (input + output === 0) return null;
  const models = run.usage.map((u) => `${u.model ?? u.provider ?? "model"}: ${number(u.inputTokens ?? 0)} in, ${number(u.outputTokens ?? 0)} out`);
  return (
    <>
      <Fact name="Tokens">
        <span title={models.join("\n")}>
          {compact(input)} in, {compact(output)} out
        </span>
      </Fact>
      <Fact name="Cost">{run.cost === undefined || run.cost === null ? <span title="The models of this run have no prices.">–</span> : money(run.cost)}</Fact>
    </>
  );
}

// The run that this one repeats, and the runs that repeat it.
function Reruns({ run }: { run: Run }) {
  const of = typeof run.metadata?.rerunOf === "string" ? run.metadata.rerunOf : "";
  const { data } = useReruns(run.id);
  const own = data?.filter((r) => r.user === run.user) ?? [];
  return (
    <>
      {of && (
        <Fact name="Rerun of">
          <Link href={runPath({ id: of, user: run.user })}>{brief(of)}</Link> · <Link href={comparePath({ id: of, user: run.user }, run)}>compare</Link>
        </Fact>
      )}
      {own.length > 0 && (
        <Fact name="Reruns">
          {own.slice(0, mostReruns).map((r, i) => (
            <span key={r.id}>
              {i > 0 && ", "}
              <Link href={runPath(r)}>{brief(r.id)}</Link>
            </span>
          ))}
          {own.length > mostReruns && ` and ${own.length - mostReruns} more`}
        </Fact>
      )}
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="num">{children}</dd>
    </div>
  );
}
