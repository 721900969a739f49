import type { Logged, LogEvent } from "../api/types";
import { short } from "../ui/short";
import { answersIn, executedWith } from "./answers";
import { failure, stamp, text } from "./transcript";

export type Kind = "run" | "step" | "text" | "reasoning" | "tool" | "model" | "wait";
export type Mark = "open" | "good" | "bad" | "cancelled";

/** Item is a period of a run. It grows until it ends. */
export interface Item {
  key: string;
  kind: Kind;
  name: string;
  detail: string;
  depth: number;
  eventId: number;
  start: number;
  end: number | null;
  mark: Mark;
  events: number; // number of events, such as deltas of a text
  progress: number | null;
  messageId: string;
  toolCallId: string;
  callId: string; // of a model call
  step: string; // the step that contains it, "" for none
  parts: Item[];
}

interface Usage {
  provider?: unknown;
  model?: unknown;
  inputTokens?: number;
  outputTokens?: number;
}

/** Timeline is the sequence of a run's activities. Add events in order. */
export class Timeline {
  /** In order of their starts. */
  items: Item[] = [];
  /** The latest time in any event. */
  last = 0;

  private roots: Item[] = [];
  private rows: Item[] = [];
  private open = new Map<string, Item>();
  private steps: { item: Item; agent: string }[] = []; // open steps, outermost first
  private agent = ""; // of the current event
  private args = new Map<string, string>(); // arguments of open calls
  private waiting: Item | null = null;
  private clock = 0;

  /** Lines are the items, each followed by its parts. */
  lines(): Item[] {
    if (this.rows.length === this.items.length) return this.rows;
    this.rows = [];
    const walk = (list: Item[]) => {
      for (const item of list) {
        this.rows.push(item);
        walk(item.parts);
      }
    };
    walk(this.roots);
    return this.rows;
  }

  /** push adds an event. It ignores an event that it cannot read; the event list shows it. */
  push(logged: Logged) {
    try {
      this.take(logged);
    } catch (error) {
      console.warn(`event ${logged.id} cannot be read`, error);
    }
  }

  private take({ id, event: e }: Logged) {
    this.clock = stamp(e) ?? this.clock;
    this.last = Math.max(this.last, this.clock);
    this.agent = text(e.agent);
    switch (e.type) {
      case "RUN_STARTED":
        this.resume(e);
        this.begin("run", "run", text(e.agentId) || text(e.agent) || "run", id, "");
        break;
      case "RUN_FINISHED":
      case "RUN_ERROR":
        this.finish(e, id);
        break;
      case "STEP_STARTED":
        this.steps.push({ agent: this.agent, item: this.begin("step", `step:${text(e.stepName)}`, text(e.stepName), id, "") });
        break;
      case "STEP_FINISHED": {
        const item = this.end(`step:${text(e.stepName)}`, "good");
        this.steps = this.steps.filter((s) => s.item !== item);
        break;
      }
      case "TEXT_MESSAGE_START":
        this.begin("text", `text:${text(e.messageId)}`, text(e.role) === "user" ? "message" : "answer", id, text(e.messageId));
        break;
      case "TEXT_MESSAGE_CONTENT":
        this.grow(`text:${text(e.messageId)}`, text(e.delta));
        break;
      case "TEXT_MESSAGE_END":
        this.end(`text:${text(e.messageId)}`, "good");
        break;
      case "REASONING_MESSAGE_START":
        this.begin("reasoning", `why:${text(e.messageId)}`, "reasoning", id, text(e.messageId));
        break;
      case "REASONING_MESSAGE_CONTENT":
        this.grow(`why:${text(e.messageId)}`, text(e.delta));
        break;
      case "REASONING_MESSAGE_END":
        this.end(`why:${text(e.messageId)}`, "good");
        break;
      case "TOOL_CALL_START":
        this.begin("tool", `tool:${text(e.toolCallId)}`, text(e.toolCallName), id, text(e.parentMessageId) || `call:${text(e.toolCallId)}`).toolCallId = text(
          e.toolCallId,
        );
        break;
      case "TOOL_CALL_ARGS":
        this.grow(`tool:${text(e.toolCallId)}`, text(e.delta));
        this.args.set(`tool:${text(e.toolCallId)}`, (this.args.get(`tool:${text(e.toolCallId)}`) ?? "") + text(e.delta));
        break;
      case "TOOL_CALL_RESULT":
        this.result(e);
        break;
      case "CUSTOM":
        if (e.name === "node-progress") this.progress(e.value);
        if (e.name === "model-call") this.model(e.value, id);
        break;
    }
  }

  private begin(kind: Kind, key: string, name: string, eventId: number, messageId: string): Item {
    const whole = kind === "run" || kind === "wait";
    const outer = whole ? undefined : (this.outer(kind, name) ?? this.open.get("run"));
    const item: Item = {
      key: `${key}@${eventId}`, kind, name, detail: "", eventId, messageId, toolCallId: "", callId: "", progress: null, events: 0, mark: "open",
      depth: outer ? outer.depth + 1 : 0, step: outer?.kind === "step" ? outer.name : "", parts: [], start: this.clock, end: null,
    };
    this.items.push(item);
    (outer?.parts ?? this.roots).push(item);
    this.open.set(key, item);
    return item;
  }

  // The containing step: the latest step of the event's agent. A sub-agent's step, name:<id>, is part of the one before it.
  private outer(kind: Kind, name: string): Item | undefined {
    if (kind === "step") return name.includes(":") ? this.steps.at(-1)?.item : undefined;
    return (this.steps.findLast((s) => s.agent === this.agent) ?? this.steps.at(-1))?.item;
  }

  private grow(key: string, delta: string) {
    const item = this.open.get(key);
    if (!item) return;
    item.events++;
    if (item.detail.length < 200) item.detail = (item.detail + delta).slice(0, 200);
  }

  private end(key: string, mark: Mark): Item | undefined {
    const item = this.open.get(key);
    if (!item) return undefined;
    item.end = this.clock;
    item.mark = mark;
    this.open.delete(key);
    return item;
  }

  private resume(e: LogEvent) {
    if (this.waiting) {
      const by = [...new Set(answersIn(e).map((a) => a.by).filter(Boolean))];
      if (by.length > 0) this.waiting.detail = `${this.waiting.detail} · answered by ${by.join(", ")}`;
      this.end("wait", "good");
    }
    this.waiting = null;
  }

  private finish(e: LogEvent, id: number) {
    const outcome = e.outcome as { type?: string; interrupts?: { message?: string; reason?: string }[]; pendingToolCallIds?: string[] } | undefined;
    const cancelled = outcome?.type === "cancelled" || e.code === "CANCELLED";
    const mark: Mark = cancelled ? "cancelled" : e.type === "RUN_ERROR" ? "bad" : "good";
    const asks = outcome?.type === "interrupt" || (outcome?.pendingToolCallIds?.length ?? 0) > 0;
    const run = this.open.get("run");
    if (run && e.type === "RUN_ERROR") run.detail = text(e.message);
    for (const [key, item] of this.open) {
      if (asks && item.kind === "tool") continue; // ends with its answer
      this.end(key, item.kind === "run" || mark !== "bad" ? mark : "bad");
    }
    this.steps = [];
    if (!asks) return;
    const first = outcome?.interrupts?.[0];
    this.waiting = this.begin("wait", "wait", "waits for an answer", id, "");
    this.waiting.detail = text(first?.message) || text(first?.reason);
  }

  private model(value: unknown, id: number) {
    const v = value as { callId?: unknown; status?: unknown; finishReason?: unknown; usage?: Usage; error?: { message?: unknown } } | undefined;
    const key = `model:${text(v?.callId)}`;
    if (v?.status === "started") {
      this.begin("model", key, "model call", id, "").callId = text(v?.callId);
      return;
    }
    const item = this.end(key, v?.status === "failed" ? "bad" : v?.status === "interrupted" ? "cancelled" : "good");
    if (!item) return;
    item.name = [text(v?.usage?.provider), text(v?.usage?.model)].filter(Boolean).join("/") || item.name;
    const { inputTokens = 0, outputTokens = 0 } = v?.usage ?? {};
    const tokens = v?.usage && `${inputTokens} + ${outputTokens} tokens`;
    item.detail = [text(v?.error?.message), tokens, text(v?.finishReason)].filter(Boolean).join(" · ");
  }

  private result(e: LogEvent) {
    const key = `tool:${text(e.toolCallId)}`;
    const asked = this.args.get(key) ?? "";
    const made = executedWith(e, asked);
    const item = this.end(key, failure(e) ? "bad" : "good");
    this.args.delete(key);
    if (item && made !== undefined) item.detail = `called with ${short(made)}, requested with ${item.detail}`;
  }

  private progress(value: unknown) {
    const v = value as { nodeId?: unknown; progress?: unknown; message?: unknown } | undefined;
    const item = this.open.get(`step:${text(v?.nodeId)}`) ?? this.steps.at(-1)?.item;
    if (!item) return;
    if (typeof v?.progress === "number") item.progress = v.progress;
    if (text(v?.message)) item.detail = text(v?.message);
  }
}
