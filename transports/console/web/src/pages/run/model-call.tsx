import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { useRerun } from "../../api/actions";
import { ask } from "../../api/client";
import { made } from "../../api/name";
import { runURL } from "../../api/queries";
import type { ModelCall, Run, SentMessage } from "../../api/types";
import { useMay, useMe, useMoney, useProject } from "../../app/context";
import { CopyIcon, Empty, Failure, Loading } from "../../ui/basics";
import { Drawn } from "../../ui/drawn";
import { duration, exactly, number } from "../../ui/format";
import { JsonTree, parsed } from "../../ui/json";
import { Plain } from "../../ui/markdown";
import { Tabs } from "../../ui/tabs";
import { prepare } from "../playground/setup";
import "./model-call.css";

const tabs = [
  { id: "sent", name: "Sent" },
  { id: "answered", name: "Answered" },
  { id: "tools", name: "Tools" },
  { id: "parameters", name: "Parameters" },
  { id: "usage", name: "Tokens and cost" },
  { id: "timing", name: "Timing" },
];

/** ModelCallDetail is a call of a model: the prompt as the model got it, its answer, tokens, cost and times. */
export function ModelCallDetail({ run, callId, agent, open }: { run: Run; callId: string; agent: unknown; open: boolean }) {
  const project = useProject();
  const [chosen, setChosen] = useState("sent");
  const { data: call, error, refetch } = useQuery({
    queryKey: ["model-call", project, run.id, run.user ?? "", callId, open],
    queryFn: () => ask<ModelCall>(runURL(project, run, `/model-calls/${encodeURIComponent(callId)}`)),
  });
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!call) return <Loading lines={3} />;
  const list = tabs.map((t) => (t.id === "tools" && call.sent ? { ...t, count: number(call.sent.tools.length) } : t));
  return (
    <div className="model-call">
      <Tabs label="Parts of the model call" tabs={list} chosen={chosen} choose={setChosen}>
        {chosen === "sent" && <Sent run={run} call={call} agent={typeof agent === "string" ? agent : (run.agent ?? "")} />}
        {chosen === "answered" && <Answered call={call} />}
        {chosen === "tools" && <Tools call={call} />}
        {chosen === "parameters" && <Parameters call={call} />}
        {chosen === "usage" && <Usage call={call} />}
        {chosen === "timing" && <Timing call={call} />}
      </Tabs>
    </div>
  );
}

function NotKept() {
  return <Empty title="The prompt is not kept">The server does not keep prompts (the setting prompts), a guard holds the agent’s output, or the prompt was removed.</Empty>;
}

const changed: Record<string, string> = {
  shortened: "Shortened", dropped: "Dropped", summarised: "Summarised", replaced: "Replaced", left_out: "Left out", removed: "Removed", cut: "Cut",
};

const many = 50; // messages that are shown at first: the latest

const adjustable = ["temperature", "topP", "maxTokens", "seed", "stop"];

function Sent({ run, call: { id, model, sent }, agent }: { run: Run; call: ModelCall; agent: string }) {
  const rerun = useRerun();
  const may = useMay("operator");
  const [shown, setShown] = useState(many);
  const { user } = useMe();
  const [, go] = useLocation();
  if (!sent) return <NotKept />;
  const before = Math.max(0, sent.messages.length - shown);
  const play = () => {
    const last = sent.messages.at(-1);
    const asks = last?.role === "user" && typeof last.content === "string";
    const begin = (asks ? sent.messages.slice(0, -1) : sent.messages).map(({ id: _, ...m }) => m);
    const parameters = Object.fromEntries(Object.entries(sent.parameters).filter(([name]) => adjustable.includes(name)));
    const threadId = made("play");
    prepare(user, threadId, {
      ...(agent && { worker: { kind: "agent", name: agent } }),
      ...(asks && { text: last.content as string }),
      ...(may && agent && { overrides: { model: model ?? "", system: sent.system, parameters: JSON.stringify(parameters, null, 2) } }),
      before: begin.length > 0 ? JSON.stringify(begin, null, 2) : null,
    });
    go(`/playground/${threadId}`);
  };
  const again = () =>
    rerun.mutate({ run, from: { fromCall: id } }, { onSuccess: ({ runId }) => go(`/runs/${encodeURIComponent(runId)}`) });
  return (
    <div className="stack">
      <div className="row">
        <button type="button" className="button small" onClick={play}>
          Open in the playground
        </button>
        <button type="button" className="button small" disabled={rerun.isPending} onClick={again}>
          Run again from here
        </button>
      </div>
      {rerun.error && <Failure error={rerun.error} />}
      {sent.changes.length > 0 && (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Changes to the conversation">
          <table className="table">
            <thead>
              <tr>
                <th>Change</th>
                <th>Of</th>
                <th>Reason</th>
              </tr>
            </thead>
            <tbody>
              {sent.changes.map((c, i) => (
                <tr key={i}>
                  <td>{changed[c.kind] ?? c.kind}</td>
                  <td className="mono">{c.of}</td>
                  <td>{c.why}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {sent.system && <Part title="system" text={sent.system} />}
      {before > 0 && (
        <button type="button" className="button small" onClick={() => setShown(shown + 4 * many)}>
          {number(before)} earlier messages
        </button>
      )}
      {sent.messages.slice(before).map((m, i) => (
        <Drawn key={before + i} value={m}>
          <SentPart message={m} />
        </Drawn>
      ))}
    </div>
  );
}

function SentPart({ message: m }: { message: SentMessage }) {
  const text = typeof m.content === "string" ? m.content : undefined;
  return (
    <>
      {text !== "" && (text !== undefined ? <Part title={m.role} of={m.toolCallId} text={text} /> : <Part title={m.role} of={m.toolCallId} value={m.content} />)}
      {m.toolCalls?.map((c) => <Part key={c.id} title={`${m.role} calls ${c.function.name}`} of={c.id} text={c.function.arguments} />)}
    </>
  );
}

// Part is a part of a prompt or an answer, as it is: a text is not drawn as Markdown.
function Part({ title, of, text, value }: { title: string; of?: string; text?: string; value?: unknown }) {
  return (
    <section className="prompt-part" aria-label={title}>
      <div className="row payload-head">
        <span className="muted">{title}</span>
        {of && <span className="muted mono clip">{of}</span>}
        <span className="grow" />
        <CopyIcon label={`Copy ${title}`} text={() => text ?? JSON.stringify(value, null, 2)} />
      </div>
      {text === undefined ? (
        <JsonTree value={value} depth={3} />
      ) : (
        <div className="code wraps" tabIndex={0} role="group" aria-label={`${title}, text`}>
          <Plain text={text} />
        </div>
      )}
    </section>
  );
}

function Answered({ call }: { call: ModelCall }) {
  const { answered, error } = call;
  return (
    <div className="stack">
      {error && <Failure error={new Error(`${error.message} (${error.code})`)} />}
      {!answered && !error && <Empty title={call.status === "started" ? "No answer yet" : "The answer is not kept"} />}
      {answered?.reasoning && <Part title="reasoning" text={answered.reasoning} />}
      {answered?.text && <Part title="text" text={answered.text} />}
      {answered?.toolCalls.map((c) => {
        const value = parsed(c.function.arguments);
        return value === undefined ? (
          <Part key={c.id} title={`calls ${c.function.name}`} of={c.id} text={c.function.arguments} />
        ) : (
          <Part key={c.id} title={`calls ${c.function.name}`} of={c.id} value={value} />
        );
      })}
      {call.finishReason && <p className="muted">Finish reason: {call.finishReason}</p>}
    </div>
  );
}

function Parameters({ call: { sent } }: { call: ModelCall }) {
  if (!sent) return <NotKept />;
  if (Object.keys(sent.parameters).length === 0) return <Empty title="No parameters">The provider’s defaults apply.</Empty>;
  return <JsonTree value={sent.parameters} depth={4} />;
}

function Tools({ call: { sent } }: { call: ModelCall }) {
  if (!sent) return <NotKept />;
  if (sent.tools.length === 0) return <Empty title="No tools">The model was offered no tools.</Empty>;
  return (
    <div className="stack">
      {sent.tools.map((t) => (
        <details key={t.name} className="call">
          <summary>
            <span className="mono">{t.name}</span> <span className="muted clip grow">{t.description}</span>
          </summary>
          <div className="stack">
            {t.description && <p className="wrap">{t.description}</p>}
            <JsonTree value={t.parameters} depth={4} />
          </div>
        </details>
      ))}
    </div>
  );
}

function Usage({ call: { usage, cost } }: { call: ModelCall }) {
  const money = useMoney();
  if (!usage) return <Empty title="No usage">The call is under way, or the provider has not reported its tokens.</Empty>;
  const rows: [string, number | undefined][] = [
    ["Input", usage.inputTokens],
    ["of these from the cache", usage.cachedInputTokens],
    ["of these written to the cache", usage.cacheWriteInputTokens],
    ["Output", usage.outputTokens],
    ["of these reasoning", usage.reasoningTokens],
  ];
  return (
    <dl className="facts">
      {rows.map(([name, n]) => n !== undefined && <Fact key={name} name={name} value={`${number(n)} tokens`} />)}
      <Fact name="Cost" value={cost === null ? "unknown: the model has no price" : money(cost)} />
    </dl>
  );
}

function Timing({ call }: { call: ModelCall }) {
  const { firstTokenMs: first, durationMs: took } = call;
  const speed = call.usage?.outputTokens && took !== null && took > (first ?? 0) ? call.usage.outputTokens / ((took - (first ?? 0)) / 1_000) : 0;
  return (
    <dl className="facts">
      <Fact name="Started" value={exactly(call.startedAt)} />
      <Fact name="First token after" value={first === null ? "–" : duration(first)} />
      <Fact name="Took" value={took === null ? "not over" : duration(took)} />
      <Fact name="Tokens a second" value={speed > 0 ? speed.toFixed(1) : "–"} />
      <Fact name="Model" value={[call.provider, call.model].filter(Boolean).join("/") || "–"} />
      <Fact name="Status" value={call.status} />
    </dl>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="num">{value}</dd>
    </div>
  );
}
