import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { useSearch } from "../../app/address";
import { ask } from "../../api/client";
import { over, runURL, useRun } from "../../api/queries";
import type { ModelCall, Run } from "../../api/types";
import { useMoney, useProject } from "../../app/context";
import { runPath } from "../../app/paths";
import { useTitle } from "../../app/title";
import { useRunLog } from "../../log/hooks";
import type { RunLog } from "../../log/runlog";
import type { Item } from "../../log/timeline";
import { Clock, Empty, Failure, Loading, Panel } from "../../ui/basics";
import { Drawn } from "../../ui/drawn";
import { brief, duration, number, opening } from "../../ui/format";
import { plainText } from "../../ui/message";
import { StatusBadge } from "../../ui/status";
import { inputOf, textOf } from "../run/input-of";
import { aligned, type Pair } from "./align";
import "./compare.css";
import { Words } from "./words";

export default function Page() {
  const query = new URLSearchParams(useSearch());
  const one = useRun(query.get("one") ?? "", query.get("oneUser") ?? undefined);
  const other = useRun(query.get("other") ?? "", query.get("otherUser") ?? undefined);
  useTitle("Compare", one.data && other.data ? `${opening(one.data.inputQuery)}` : "");
  const error = one.error ?? other.error;
  if (error) {
    const retry = () => void Promise.all([one.refetch(), other.refetch()]);
    return <div className="page"><Failure error={error} retry={retry} /></div>;
  }
  if (!one.data || !other.data) return <div className="page"><Loading /></div>;
  return <Both one={one.data} other={other.data} />;
}

function Both({ one, other }: { one: Run; other: Run }) {
  const [a, b] = [useLog(one), useLog(other)];
  const left = { run: one, log: a };
  const right = { run: other, log: b };
  return (
    <div className="page compare">
      <header className="page-head">
        <h1>Compare two runs</h1>
      </header>
      <Facts one={left} other={right} />
      <Panel title="Input">
        <Words label="Differences of the inputs" one={textOf(one, inputOf(a))} other={textOf(other, inputOf(b))} />
      </Panel>
      <Panel title="Answer">
        <Words label="Differences of the answers" one={one.outputSummary ?? ""} other={other.outputSummary ?? ""} />
      </Panel>
      <Panel title="Timeline" flush>
        {a.complete && b.complete ? <Lines one={left} other={right} /> : <Loading />}
      </Panel>
      <p className="muted">
        <del>Removed</del> is only in the first run, <ins>added</ins> only in the second.
      </p>
    </div>
  );
}

interface Side {
  run: Run;
  log: RunLog;
}

const useLog = (run: Run) => useRunLog(run.conversationId, run.id, !over(run.status), run.lastEvent?.id ?? 0);

function Facts({ one, other }: { one: Side; other: Side }) {
  const money = useMoney();
  const rows: [string, (s: Side) => ReactNode][] = [
    ["Run", ({ run }) => <Link href={runPath(run)}>{brief(run.id)}</Link>],
    ["Status", ({ run }) => <StatusBadge status={run.status} />],
    ["Agent", ({ run }) => run.workflowId],
    ["Created", ({ run }) => <Clock at={run.createdAt} />],
    ["Took", ({ run }) => (run.startedAt && run.finishedAt ? duration(Date.parse(run.finishedAt) - Date.parse(run.startedAt)) : "–")],
    ["Models", ({ run }) => [...new Set(run.usage.map((u) => u.model ?? u.provider ?? "model"))].join(", ") || "–"],
    ["Input tokens", ({ run }) => number(run.inputTokens ?? 0)],
    ["Output tokens", ({ run }) => number(run.outputTokens ?? 0)],
    ["Cost", ({ run }) => (run.cost === null || run.cost === undefined ? "–" : money(run.cost))],
    ["Events", ({ log }) => number(log.events.length)],
    ["Error", ({ run }) => (run.error ? `${run.error.code}: ${run.error.message}` : "–")],
  ];
  return (
    <div className="scroll-x panel" tabIndex={0} role="region" aria-label="Facts">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">
              <span className="hidden-text">Fact</span>
            </th>
            <th scope="col">First run</th>
            <th scope="col">Second run</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, show]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="num">{show(one)}</td>
              <td className="num">{show(other)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const many = 200; // lines that are shown at first

function Lines({ one, other }: { one: Side; other: Side }) {
  const [open, setOpen] = useState(-1);
  const [shown, setShown] = useState(many);
  const pairs = aligned(one.log.timeline.lines(), other.log.timeline.lines());
  if (pairs.length === 0) return <Empty title="No events yet" />;
  return (
    <ol className="pairs" aria-label="Lines of both timelines">
      {pairs.slice(0, shown).map((pair, i) => {
        const item = pair.one ?? pair.other;
        return (
          item && (
            <li key={i}>
              <button type="button" className="pair" aria-expanded={open === i} onClick={() => setOpen(open === i ? -1 : i)}>
                <span className="clip" style={{ paddingLeft: `${item.depth}rem` }}>
                  {item.name} <span className="muted">{item.kind === "run" || item.kind === item.name ? "" : item.kind}</span>
                </span>
                <Half item={pair.one} />
                <Half item={pair.other} />
              </button>
              {open === i && (
                <Drawn value={pair}>
                  <Detail pair={pair} one={one} other={other} />
                </Drawn>
              )}
            </li>
          )
        );
      })}
      {pairs.length > shown && (
        <li>
          <button type="button" className="button small" onClick={() => setShown(shown * 5)}>
            {number(pairs.length - shown)} more lines
          </button>
        </li>
      )}
    </ol>
  );
}

function Half({ item }: { item: Item | null }) {
  if (!item) return <span className="muted num">not there</span>;
  return (
    <span className="num" data-mark={item.mark}>
      {item.end === null ? "under way" : duration(Math.max(0, item.end - item.start))}
      {item.mark === "bad" && " · failed"}
      {item.mark === "cancelled" && " · cancelled"}
    </span>
  );
}

function Detail({ pair, one, other }: { pair: Pair; one: Side; other: Side }) {
  if (pair.one?.callId || pair.other?.callId) return <ModelCalls pair={pair} one={one} other={other} />;
  return (
    <div className="pair-detail stack">
      <Words label="Differences of the line" one={contentOf(pair.one, one.log)} other={contentOf(pair.other, other.log)} />
    </div>
  );
}

// The text of a message, the arguments and the result of a call, or what the line says.
function contentOf(item: Item | null, log: RunLog): string {
  if (!item) return "";
  const call = item.toolCallId ? log.transcript.entries.flatMap((e) => e.calls).find((c) => c.id === item.toolCallId) : undefined;
  if (call) return `${call.args}\n→ ${plainText(call.result ?? "")}`;
  const entry = log.transcript.entries.find((e) => e.id === item.messageId);
  return entry ? plainText(entry.content) : item.detail;
}

function ModelCalls({ pair, one, other }: { pair: Pair; one: Side; other: Side }) {
  const a = useCall(one.run, pair.one);
  const b = useCall(other.run, pair.other);
  if (a.error ?? b.error) return <Failure error={a.error ?? b.error} />;
  if (a.isLoading || b.isLoading) return <Loading lines={3} />;
  return (
    <div className="pair-detail stack">
      <span className="muted">Model</span>
      <Words label="Differences of the models" one={modelOf(a.data)} other={modelOf(b.data)} />
      <span className="muted">Sent</span>
      <Words label="Differences of the prompts" one={promptOf(a.data)} other={promptOf(b.data)} />
      <span className="muted">Answered</span>
      <Words label="Differences of the model’s answers" one={answerOf(a.data)} other={answerOf(b.data)} />
    </div>
  );
}

function useCall(run: Run, item: Item | null) {
  const project = useProject();
  const id = item?.callId ?? "";
  return useQuery({
    queryKey: ["model-call", project, run.id, run.user ?? "", id, item?.end === null],
    enabled: id !== "",
    queryFn: () => ask<ModelCall>(runURL(project, run, `/model-calls/${encodeURIComponent(id)}`)),
  });
}

const modelOf = (c: ModelCall | undefined) =>
  c ? `${[c.provider, c.model].filter(Boolean).join("/")} ${c.sent ? JSON.stringify(c.sent.parameters) : ""}` : "";

function promptOf(c: ModelCall | undefined): string {
  if (!c?.sent) return "";
  const messages = c.sent.messages.map((m) => {
    const calls = m.toolCalls?.map((t) => `\ncalls ${t.function.name} ${t.function.arguments}`).join("") ?? "";
    return `${m.role}: ${plainText(m.content)}${calls}`;
  });
  return [...(c.sent.system ? [`system: ${c.sent.system}`] : []), ...messages].join("\n\n");
}

function answerOf(c: ModelCall | undefined): string {
  if (!c?.answered) return c?.error ? `${c.error.code}: ${c.error.message}` : "";
  const { reasoning, text, toolCalls } = c.answered;
  return [reasoning, text, ...toolCalls.map((t) => `calls ${t.function.name} ${t.function.arguments}`)].filter(Boolean).join("\n\n");
}
