import type { Logged, LogEvent, ThreadMessage } from "../api/types";
import { answersIn, executedWith, type Answered } from "./answers";
import { patched, States } from "./states";

/** Call is a tool call for display. */
export interface Call {
  id: string;
  name: string;
  args: string;
  result: unknown; // undefined until it arrives
  failed: boolean;
  done: boolean; // its arguments are complete
  made: unknown; // the edited arguments, if a person has edited them; otherwise undefined
  answered: Answered | null; // the answer to the request for approval
  at: number | null;
  ended: number | null;
}

/** Entry is a message of a transcript. It changes in place; version counts the changes. */
export interface Entry {
  id: string;
  role: string;
  content: unknown; // text or parts
  name: string;
  runId: string;
  eventId: number; // of the event that started it, 0 for a loaded message
  at: number | null;
  open: boolean; // more will follow
  cut: boolean; // its writer was stopped, and the message is written again
  calls: Call[];
  version: number;
  message: ThreadMessage | null; // the server's message, if it was loaded
}

/** Transcript is the messages of a log, and its state over time. Add events in order. */
export class Transcript {
  entries: Entry[] = [];
  states = new States();

  private readonly tidy: boolean;
  private byId = new Map<string, Entry>();
  private calls = new Map<string, { call: Call; entry: Entry }>();
  private asked = new Map<string, string>(); // calls that questions refer to, by the questions' ids

  /** A tidy transcript omits cut messages, as the server does in its list of messages. */
  constructor(tidy = false) {
    this.tidy = tidy;
  }

  get state(): unknown {
    return this.states.latest();
  }

  /** start sets the initial messages and state. */
  start(messages: ThreadMessage[], state: unknown) {
    this.states = new States();
    this.states.start(state);
    this.replace(messages, 0, "");
  }

  /** push adds an event. It ignores an event that it cannot read; the event list shows it. */
  push(logged: Logged) {
    try {
      this.take(logged);
    } catch (error) {
      console.warn(`event ${logged.id} cannot be read`, error);
    }
  }

  private take({ id, event }: Logged) {
    const e = event;
    switch (e.type) {
      case "RUN_STARTED":
        for (const m of messagesOf(e.input)) this.load(m, id, text(e.runId), stamp(e));
        for (const a of answersIn(e)) this.change({ ...e, toolCallId: this.asked.get(a.interruptId) }, (call) => (call.answered = a));
        break;
      case "TEXT_MESSAGE_START":
        this.begin(text(e.messageId), text(e.role) || "assistant", id, e);
        break;
      case "REASONING_MESSAGE_START":
        this.begin(text(e.messageId), "reasoning", id, e);
        break;
      case "TEXT_MESSAGE_CONTENT":
      case "REASONING_MESSAGE_CONTENT": {
        const entry = this.byId.get(text(e.messageId)) ?? this.begin(text(e.messageId), e.type[0] === "R" ? "reasoning" : "assistant", id, e);
        entry.content = text(entry.content) + text(e.delta);
        entry.version++;
        break;
      }
      case "TEXT_MESSAGE_END":
      case "REASONING_MESSAGE_END": {
        const entry = this.byId.get(text(e.messageId));
        if (entry && interrupted(e)) entry.cut = true;
        this.end(entry);
        if (entry?.cut && this.tidy && entry.calls.length === 0) this.retract({ messageIds: [entry.id] });
        break;
      }
      case "TOOL_CALL_START":
        this.call(id, e);
        break;
      case "TOOL_CALL_ARGS":
        this.change(e, (call) => (call.args += text(e.delta)));
        break;
      case "TOOL_CALL_END":
        this.change(e, (call) => (call.done = true));
        break;
      case "TOOL_CALL_RESULT":
        this.result(e);
        break;
      case "MESSAGES_SNAPSHOT":
        this.replace(Array.isArray(e.messages) ? (e.messages as ThreadMessage[]) : [], id, text(e.runId));
        break;
      case "STATE_SNAPSHOT":
      case "STATE_DELTA":
        this.states.push({ id, event });
        break;
      case "ACTIVITY_SNAPSHOT": {
        const entry = this.begin(text(e.messageId), "activity", id, e);
        entry.name = text(e.activityType);
        entry.content = e.content;
        this.end(entry);
        break;
      }
      case "ACTIVITY_DELTA": {
        const entry = this.byId.get(text(e.messageId));
        if (!entry) break;
        entry.content = patched(entry.content, e.patch ?? e.delta);
        entry.version++;
        break;
      }
      case "CUSTOM":
        if (e.name === "messages-retracted") this.retract(e.value);
        break;
      case "RUN_FINISHED":
      case "RUN_ERROR":
        for (const entry of this.entries) if (entry.open) this.end(entry);
        for (const i of interruptsOf(e)) if (i.toolCallId) this.asked.set(i.id, i.toolCallId);
        break;
    }
  }

  private begin(id: string, role: string, eventId: number, e: LogEvent): Entry {
    const entry: Entry = {
      id, role, eventId, content: "", name: "", runId: text(e.runId), at: stamp(e), open: true, cut: false, calls: [], version: 0, message: null,
    };
    this.put(entry);
    return entry;
  }

  private put(entry: Entry) {
    const known = this.byId.get(entry.id);
    this.byId.set(entry.id, entry);
    if (known) this.entries = this.entries.map((e) => (e === known ? entry : e));
    else this.entries.push(entry);
  }

  private end(entry: Entry | undefined) {
    if (!entry?.open) return;
    entry.open = false;
    entry.version++;
  }

  // A message that cannot be read is shown as an error.
  private load(m: ThreadMessage, eventId: number, runId: string, at: number | null) {
    try {
      this.read(m, eventId, runId, at);
    } catch {
      const id = text((m as ThreadMessage | null)?.id) || `unread:${eventId}:${this.entries.length}`;
      this.put({ id, role: "unread", eventId, runId, at, content: m, name: "Message", open: false, cut: false, calls: [], version: 0, message: null });
    }
  }

  private read(m: ThreadMessage, eventId: number, runId: string, at: number | null) {
    if (m.role === "tool") {
      const made = this.calls.get(m.toolCallId ?? "");
      if (!made) return;
      made.call.result = m.content;
      made.call.failed = Boolean(m.error);
      made.call.done = true;
      made.call.made = executedWith(m, made.call.args);
      made.entry.version++;
      return;
    }
    const entry: Entry = {
      id: m.id, role: m.role, eventId, runId, at, content: m.content ?? "", name: m.name ?? m.activityType ?? "",
      open: false, cut: false, calls: [], version: 0, message: m,
    };
    for (const c of m.toolCalls ?? []) {
      const call: Call = {
        id: c.id, name: c.function.name, args: c.function.arguments, result: undefined, failed: false, done: true, made: undefined, answered: null, at, ended: null,
      };
      entry.calls.push(call);
      this.calls.set(call.id, { call, entry });
    }
    this.put(entry);
  }

  private replace(messages: ThreadMessage[], eventId: number, runId: string) {
    this.entries = [];
    this.byId.clear();
    this.calls.clear();
    for (const m of messages) this.load(m, eventId, runId, null);
  }

  private call(eventId: number, e: LogEvent) {
    const parent = this.byId.get(text(e.parentMessageId));
    const entry = parent ?? this.begin(`call:${text(e.toolCallId)}`, "assistant", eventId, e);
    if (!parent) entry.open = false;
    const call: Call = {
      id: text(e.toolCallId), name: text(e.toolCallName), args: "", result: undefined, failed: false, done: false, made: undefined, answered: null, at: stamp(e), ended: null,
    };
    entry.calls.push(call);
    entry.version++;
    this.calls.set(call.id, { call, entry });
  }

  private change(e: LogEvent, what: (call: Call) => void) {
    const made = this.calls.get(text(e.toolCallId));
    if (!made) return;
    what(made.call);
    made.entry.version++;
  }

  private result(e: LogEvent) {
    this.change(e, (call) => {
      call.result = e.content ?? "";
      call.failed = failure(e);
      call.made = executedWith(e, call.args);
      call.done = true;
      call.ended = stamp(e);
    });
  }

  private retract(value: unknown) {
    const ids = (value as { messageIds?: unknown })?.messageIds;
    if (!Array.isArray(ids)) return;
    const gone = new Set(ids);
    this.entries = this.entries.filter((entry) => !gone.has(entry.id));
    for (const id of ids) this.byId.delete(id as string);
  }
}

// Reports whether a message ended because its server stopped.
function interrupted(e: LogEvent): boolean {
  const output = (e.workerAgentOutput ?? (e.metadata as { workerAgentOutput?: unknown } | undefined)?.workerAgentOutput) as { error?: { code?: unknown } } | undefined;
  return output?.error?.code === "interrupted";
}

/** text returns a string value, "" for other values. */
export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** stamp returns the time of an event in milliseconds. */
export function stamp(e: LogEvent): number | null {
  return typeof e.timestamp === "number" ? e.timestamp : null;
}

/** failure reports whether a tool's result is a failure. */
export function failure(e: LogEvent): boolean {
  const output = (e.toolAgentOutput ?? (e.metadata as { toolAgentOutput?: unknown } | undefined)?.toolAgentOutput) as { status?: unknown } | undefined;
  const status = output?.status ?? e.status ?? (e.metadata as { status?: unknown } | undefined)?.status;
  return status === "failure" || status === "failed" || Boolean(e.error);
}

function interruptsOf(e: LogEvent): { id: string; toolCallId?: string }[] {
  const list = (e.outcome as { interrupts?: unknown } | undefined)?.interrupts;
  return Array.isArray(list) ? list : [];
}

function messagesOf(input: unknown): ThreadMessage[] {
  const list = (input as { messages?: unknown } | undefined)?.messages;
  return Array.isArray(list) ? (list as ThreadMessage[]) : [];
}
