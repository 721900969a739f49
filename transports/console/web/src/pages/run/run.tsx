import { useState } from "react";
import { useLocation } from "wouter";
import { useSearch, useSetSearch } from "../../app/address";
import { useDelete } from "../../api/actions";
import { over, useRun } from "../../api/queries";
import { missing } from "../../api/problem";
import type { Run } from "../../api/types";
import { useKeys } from "../../app/keys";
import { useTitle } from "../../app/title";
import { useRunLog } from "../../log/hooks";
import { Answer } from "../../ui/answer";
import { Empty, Failure, Loading, Panel } from "../../ui/basics";
import { number, opening } from "../../ui/format";
import { word } from "../../ui/status";
import { Tabs } from "../../ui/tabs";
import { failed, toast } from "../../ui/toast";
import { Events } from "./events";
import { Header } from "./header";
import { Input } from "./input";
import { Messages } from "./messages";
import { Problem } from "./problem";
import "./run.css";
import { State } from "./state";
import { TimelineTab } from "./timeline-tab";

export default function Page({ runId }: { runId: string }) {
  const user = new URLSearchParams(useSearch()).get("user") ?? undefined;
  const [, go] = useLocation();
  const [going, setGoing] = useState(false); // during deletion the page requests nothing
  const { data: run, error, refetch } = useRun(runId, user, !going);
  const remove = useDelete();
  const onDelete = () => {
    if (!run) return;
    setGoing(true);
    remove.mutate(run, {
      onSuccess: () => {
        toast("Run deleted.");
        go("/runs");
      },
      onError: (error) => {
        setGoing(false);
        failed(error);
      },
    });
  };
  if (missing(error)) {
    return (
      <div className="page">
        <Empty title="Run not found">It was deleted, has expired, or belongs to another user.</Empty>
      </div>
    );
  }
  if (!run) return <div className="page">{error ? <Failure error={error} retry={() => void refetch()} /> : <Loading />}</div>;
  return <OneRun run={run} onDelete={onDelete} />;
}

const tabs = ["timeline", "messages", "state", "events", "input"] as const;

function OneRun({ run, onDelete }: { run: Run; onDelete: () => void }) {
  useTitle(word(run.status), opening(run.inputQuery) || `Run of ${run.workflowId}`);
  const setSearch = useSetSearch();
  const query = new URLSearchParams(useSearch());
  const chosen = tabs.find((t) => t === query.get("tab")) ?? "timeline";
  const place = (name: "event" | "line") => Number(query.get(name)) || 0;
  const mark = (name: "event" | "line", id: number) => {
    if (id > 0) query.set(name, String(id));
    else query.delete(name);
    setSearch(query);
  };
  const [stateAt, setStateAt] = useState(0); // the event at which the state is shown, 0 for the latest
  const log = useRunLog(run.conversationId, run.id, !over(run.status), run.lastEvent?.id ?? 0);
  const choose = (tab: string, at = 0) => {
    setStateAt(at);
    query.set("tab", tab);
    query.delete("event");
    query.delete("line");
    setSearch(query);
  };
  const show = (id: number) => {
    query.set("tab", "events");
    mark("event", id);
  };
  useKeys("This run", Object.fromEntries(tabs.map((t, i) => [String(i + 1), { does: `show its ${t}`, run: () => choose(t) }])));
  return (
    <div className="page">
      <Header run={run} log={log} onDelete={onDelete} />
      {run.error && <Problem error={run.error} />}
      {run.status === "WAITING" && run.interrupts.length > 0 && (
        <Panel title={run.interrupts.some((i) => i.answerable) ? "Waiting for you" : "Waiting for an answer"} className="waits">
          <Answer key={run.interrupts.map((i) => i.id).join()} runId={run.id} user={run.user} interrupts={run.interrupts} calls={log.transcript.entries.flatMap((e) => e.calls)} />
        </Panel>
      )}
      {log.problem && <Failure error={new Error(log.problem)} retry={() => void log.read()} />}
      <section>
        <Tabs
          label="Run sections"
          tabs={[
            { id: "timeline", name: "Timeline" },
            { id: "messages", name: "Messages", count: number(log.transcript.entries.length) },
            { id: "state", name: "State", count: number(log.transcript.states.length) },
            { id: "events", name: "Events", count: number(log.events.length) },
            { id: "input", name: "Input" },
          ]}
          chosen={chosen}
          choose={(tab) => choose(tab)}
        >
          {chosen === "timeline" && <TimelineTab run={run} log={log} at={place("line")} choose={(id) => mark("line", id)} show={show} />}
          {chosen === "messages" && <Messages run={run} log={log} />}
          {chosen === "state" && <State run={run} log={log} at={stateAt} show={show} />}
          {chosen === "events" && <Events run={run} log={log} at={place("event")} choose={(id) => mark("event", id)} showState={(id) => choose("state", id)} />}
          {chosen === "input" && <Input run={run} log={log} />}
        </Tabs>
      </section>
    </div>
  );
}
