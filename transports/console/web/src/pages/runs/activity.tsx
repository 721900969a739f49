import { useEffect, useMemo } from "react";
import { ask } from "../../api/client";
import { runURL } from "../../api/queries";
import type { Socket } from "../../api/socket";
import type { Logged, NodeState, Run } from "../../api/types";
import { useProject, useSocket } from "../../app/context";
import { useObservable } from "../../log/hooks";
import { Observable } from "../../log/observable";
import { text } from "../../log/transcript";

const recent = 100; // events before the end of the log that are read first
const kept = 160; // characters
const pace = 250; // ms between two updates

/** Activity shows the current step of a running run, and the last words of its output, live. */
export function Activity({ run }: { run: Run }) {
  const project = useProject();
  const socket = useSocket();
  const { id, conversationId, user } = run;
  const nodes = run.agent === null ? runURL(project, { id, user }, "/node-states") : ""; // only workflows have nodes
  const latest = useMemo(() => new Latest(project, conversationId, id, nodes), [project, conversationId, id, nodes]);
  useEffect(() => latest.follow(socket), [latest, socket]);
  useObservable(latest);
  if (!latest.step && !latest.words) return null;
  return (
    <span className="activity muted">
      {latest.step && <strong className="clip">{latest.step}</strong>}
      <span className="clip words">
        <bdi>{latest.words}</bdi>
      </span>
    </span>
  );
}

/** Latest is the open steps of a run and its latest output. It does not read the whole log. */
class Latest extends Observable {
  words = "";

  private readonly url: string;
  private readonly conversationId: string;
  private readonly nodes: string; // the path of the nodes' states, "" for none
  private steps: string[] = [];
  private last = 0;
  private early: Logged[] | null = null; // live events that arrive while earlier ones are read

  constructor(project: string, conversationId: string, runId: string, nodes: string) {
    super();
    this.nodes = nodes;
    this.conversationId = conversationId;
    const [p, c, r] = [project, conversationId, runId].map(encodeURIComponent);
    this.url = `/api/v1/conversations/${c}/agent-runs/${r}/events?projectId=${p}&projection=seed&limit=${recent}&after_event_id=`;
  }

  get step(): string {
    return this.steps.at(-1) ?? "";
  }

  follow(socket: Socket): () => void {
    return socket.follow(this.conversationId, { from: (id) => void this.read(id), events: (list) => this.live(list), gone: () => {} }, true);
  }

  // Reads the events before the end of the log, at first and after a lost connection.
  private async read(end: number) {
    this.early = [];
    this.steps = [];
    this.last = 0;
    try {
      const { data } = await ask<{ data: { event_id: number; event: Logged["event"] }[] }>(this.url + Math.max(0, end - recent));
      this.add(data.map(({ event_id, event }) => ({ id: event_id, event })));
      const running = this.steps.length === 0 && this.nodes && (await ask<{ items: NodeState[] }>(this.nodes)); // the step began before them
      if (running) this.steps = running.items.filter((n) => n.status === "RUNNING").map((n) => n.nodeId);
    } catch {
      // the next event shows what the run does
    }
    const { early } = this;
    this.early = null;
    this.add(early);
  }

  private live(list: Logged[]) {
    if (this.early) this.early.push(...list);
    else this.add(list);
  }

  private add(list: Logged[]) {
    for (const logged of list) {
      if (logged.id <= this.last) continue;
      this.last = logged.id;
      this.take(logged);
    }
    this.changed(pace);
  }

  private take({ event: e }: Logged) {
    switch (e.type) {
      case "RUN_STARTED":
        this.steps = [];
        this.words = "";
        break;
      case "STEP_STARTED":
        this.steps.push(text(e.stepName));
        break;
      case "STEP_FINISHED":
        this.steps = this.steps.filter((name) => name !== e.stepName);
        break;
      case "TEXT_MESSAGE_START":
      case "REASONING_MESSAGE_START":
        this.words = "";
        break;
      case "TEXT_MESSAGE_CONTENT":
      case "REASONING_MESSAGE_CONTENT":
        this.words = (this.words + text(e.delta)).slice(-kept);
        break;
      case "TOOL_CALL_START":
        this.words = `calls ${text(e.toolCallName)}`;
        break;
    }
  }
}
