import { useEffect, useState } from "react";
import { Redirect, useLocation } from "wouter";
import { useName, useSearch } from "../../app/address";
import { useCancel } from "../../api/actions";
import { made } from "../../api/name";
import { useOffers, useWorkflows, over } from "../../api/queries";
import { isTool, useThreadRuns } from "../../api/threads";
import type { Attachment, Run } from "../../api/types";
import { useSocket } from "../../app/context";
import { useKeys } from "../../app/keys";
import { useTitle } from "../../app/title";
import { useThreadLog } from "../../log/hooks";
import { CopyIcon, Failure } from "../../ui/basics";
import { CodeEditor } from "../../ui/code-editor";
import { Dialog } from "../../ui/dialog";
import * as icons from "../../ui/icons";
import { failed } from "../../ui/toast";
import { Composer } from "./composer";
import { Conversation } from "./conversation";
import "./playground.css";
import { useSetup, type Setup, type Worker } from "./setup";
import { Side } from "./side";
import { Declaration, type Declared } from "./tools-tab";
import { begins } from "./request";
import { useAsk } from "./use-ask";

/** The page Playground: a conversation on the thread in the address. */
export default function Page() {
  useTitle("Playground");
  const threadId = useName("playground");
  const query = useSearch();
  if (!threadId) return <Redirect to={`/playground/${made("play")}${query && `?${query}`}`} replace />;
  return <Thread key={threadId} threadId={threadId} />;
}

function Thread({ threadId }: { threadId: string }) {
  const [generation, setGeneration] = useState(0);
  const log = useThreadLog(threadId, generation);
  const runs = useThreadRuns(threadId, log.complete && log.exists, `${log.runId}/${log.running}/${log.spans}`);
  const [setup, change] = useSetup(threadId);
  const worker = useWorker(setup.worker, runs.find((r) => !isTool(r)), log.complete);
  const ask = useAsk({ threadId, setup, worker, change, begun: () => setGeneration((n) => n + 1), exists: log.exists });
  const open = runs.filter((r) => !over(r.status));
  const cancel = useCancel();
  const stop = () => open.forEach((r) => cancel.mutate(r, { onError: failed }));
  const [settings, setSettings] = useState(false);
  const wide = useWide();
  const [, go] = useLocation();
  const fresh = () => go("/playground");
  useKeys("Playground", {
    n: { does: "a new thread", run: fresh },
    i: { does: "write", run: () => document.getElementById("say")?.focus() },
    s: { does: "stop", run: stop },
  });
  const socket = useSocket();
  const missing = !log.exists;
  useEffect(() => {
    if (missing) return socket.changes(() => setGeneration((n) => n + 1)); // another tab may have created it
  }, [socket, missing]);
  const [tab, setTab] = useState(setup.overrides ? "model" : "state");
  const [files, setFiles] = useState<Attachment[]>([]);
  const [declared, declare] = useState<Declared | null>(null); // here, because the settings move when the window becomes narrow
  const side = <Side log={log} setup={setup} change={change} worker={worker} threadId={threadId} files={files} tab={tab} choose={setTab} declare={declare} />;
  return (
    <div className="playground">
      <div className="talk">
        <header className="page-head">
          <h1>Playground</h1>
          <WorkerChoice worker={worker} choose={(next) => change({ worker: next })} />
          <div className="actions">
            <span className="row muted thread-name">
              <span className="mono clip">{threadId}</span>
              <CopyIcon label="Copy the thread’s name" text={threadId} />
            </span>
            {!wide && (
              <button type="button" className="button" onClick={() => setSettings(true)}>
                Settings
              </button>
            )}
            <button type="button" className="button" onClick={fresh}>
              <icons.Plus /> New thread
            </button>
          </div>
        </header>
        {log.problem && <Failure error={new Error(log.problem)} retry={() => setGeneration((n) => n + 1)} />}
        {setup.before !== null && !log.exists ? (
          <div className="grow">
            <Before setup={setup} change={change} />
          </div>
        ) : (
          <Conversation log={log} runs={runs} ask={ask} worker={worker} say={(text) => change({ text })} />
        )}
        <Composer begun={begins(setup)?.length ?? -1} text={setup.text} files={files} setFiles={setFiles} change={change} ask={ask} open={open} stop={stop} worker={worker} staged={setup.state !== null} />
      </div>
      {wide ? (
        <aside className="side" aria-label="Settings of the thread">
          {side}
        </aside>
      ) : (
        settings && !declared && (
          <Dialog title="Settings" onClose={() => setSettings(false)}>
            {side}
          </Dialog>
        )
      )}
      {declared && <Declaration declared={declared} tools={setup.tools} change={(tools) => change({ tools })} onClose={() => declare(null)} />}
    </div>
  );
}

// The messages of a prompt that begin the thread.
function Before({ setup, change }: { setup: Setup; change: (part: Partial<Setup>) => void }) {
  const list = begins(setup);
  return (
    <details className="panel before">
      <summary>{list === null ? "The messages before yours are not a JSON array" : `${list.length} messages of a prompt come before yours`}</summary>
      <div className="stack">
        <p className="muted">
          {setup.overrides
            ? "The agent above adds its tools. Its instructions, model and parameters are those of the call, and can be changed in the settings."
            : "The agent above adds its own instructions, tools, model and parameters. Choose another agent to change these."}
        </p>
        <CodeEditor label="Messages before yours" value={setup.before ?? ""} onChange={(before) => change({ before })} height={200} />
        <div>
          <button type="button" className="button small" onClick={() => change({ before: null })}>
            Leave them out
          </button>
        </div>
      </div>
    </details>
  );
}

// The worker: the chosen one, the one in the address, the one of the last run, or a default, in that order.
function useWorker(chosen: Worker | null, latest: Run | undefined, ready: boolean): Worker {
  const query = new URLSearchParams(useSearch());
  const names = useOffers().data?.agents.map((a) => a.name) ?? [];
  if (chosen) return chosen;
  const [agent, workflow] = [query.get("agent"), query.get("workflow")];
  if (agent) return { kind: "agent", name: agent };
  if (workflow) return { kind: "workflow", name: workflow };
  if (latest) return latest.agent === null ? { kind: "workflow", name: latest.workflowId } : { kind: "agent", name: latest.agent };
  const first = ["assistant", "echo"].find((name) => names.includes(name)) ?? names[0];
  return { kind: "agent", name: (ready && first) || "" };
}

function WorkerChoice({ worker, choose }: { worker: Worker; choose: (worker: Worker) => void }) {
  const agents = useOffers().data?.agents;
  const workflows = useWorkflows().data?.workflows;
  const names = agents?.map((a) => a.name) ?? [];
  const known = [...names.map((n) => `agent:${n}`), ...(workflows ?? []).map((w) => `workflow:${w.name}`)];
  const value = `${worker.kind}:${worker.name}`;
  return (
    <select
      className="input worker" aria-label="Who answers" value={value}
      onChange={(e) => {
        const [kind, ...name] = e.target.value.split(":");
        choose({ kind: kind as Worker["kind"], name: name.join(":") });
      }}
    >
      {!known.includes(value) && <option value={value}>{worker.name || "…"}</option>}
      <optgroup label="Agents">
        {names.map((name) => (
          <option key={name} value={`agent:${name}`}>
            {name}
          </option>
        ))}
      </optgroup>
      {workflows && workflows.length > 0 && (
        <optgroup label="Workflows">
          {workflows.map(({ name }) => (
            <option key={name} value={`workflow:${name}`}>
              {name}
            </option>
          ))}
        </optgroup>
      )}
    </select>
  );
}

const room = matchMedia("(min-width: 1180px)");

// useWide reports whether the settings fit beside the conversation.
function useWide(): boolean {
  const [wide, setWide] = useState(room.matches);
  useEffect(() => {
    const tell = () => setWide(room.matches);
    room.addEventListener("change", tell);
    return () => room.removeEventListener("change", tell);
  }, []);
  return wide;
}
