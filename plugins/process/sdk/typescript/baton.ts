/**
 * Agents and tools for Baton in TypeScript on Node.js 20 or later, in one file without dependencies. Node.js 22.18 or
 * later runs it without compilation.
 *
 *     import { serve } from "./baton.ts";
 *
 *     serve(async run => {
 *       const rows = await run.do("load", load);          // recorded, and not done again after a crash
 *       run.text(`${rows.length} rows: `);                // streams
 *       const out = await run.tool("calculator", { expression: "1 + 1" });
 *       const { payload } = await run.ask("Publish?");
 *       return { answer: "good", key_points: ["..."] };
 *     }, { description: "Scores what it is given" });
 *
 * After a crash or a person's answer the function is replayed from its start with the same input. Wrap work that must not
 * repeat in run.do, which returns its recorded value on replay; tool, tools, agent, ask, sleep, waitFor, next and usage are
 * recorded in the same way. So the function must make the same calls in the same order each time; concurrent calls need a run.branch each,
 * or run.tools.
 *
 * serve keeps the pipes to Baton to itself: standard input is empty, and standard output goes to standard error, which Baton logs.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { closeSync, constants, createReadStream, openSync, writeSync } from "node:fs";
import { Socket } from "node:net";
import { createInterface } from "node:readline";
import { Console } from "node:console";
import { Worker } from "node:worker_threads";

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The input of a run, with the names from Baton's documentation. */
export interface Input {
  query: string;
  messages: { id: string; role: string; content?: Json; [name: string]: unknown }[];
  state: { [name: string]: Json };
  tools: Json[];
  context: { description: string; value: string }[];
  contextItemIds: string[];
  forwardedProps?: Json;
  threadId: string;
  runId: string;
  user: string;
  project: string;
  node: string;
  execution: number;
}

/** The output of an agent; a text is its answer. */
export type Output =
  | void
  | null
  | string
  | { answer?: string; status?: string; key_points?: string[]; result_type?: string; suggested_actions?: string[] };

/** The output of a tool. A failed tool has the status failure. */
export interface ToolOutput {
  tool_name: string;
  tool_call_id: string;
  status: string;
  result_summary: string;
  error?: { code: string; message: string; retryable?: boolean };
}

/** The description of a tool. Parameters is the JSON Schema of its arguments, an object. */
export interface ToolInfo {
  name: string;
  description?: string;
  parameters?: object;
  idempotent?: boolean;
  /** Each call waits for a person: true, or who may approve it and what they see. */
  approval?: boolean | Approval;
}

/** Who may approve a call, and what they see, as `approval` in baton.yaml. Message is an expression of args, expires a duration such as 24h. */
export interface Approval {
  by?: "user" | "operator" | "admin";
  not?: "requester";
  message?: string;
  expires?: string;
  edit?: boolean;
}

/** A tool; call returns a text, an object like Baton's ToolAgentOutput, or any JSON. */
export interface Tool extends ToolInfo {
  call(args: { [name: string]: Json }, signal: AbortSignal): unknown;
}

/** An error whose text clients see; the text of other errors is only logged. */
export class BatonError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  constructor(message: string, code = "failed", retryable = false) {
    super(message);
    this.code = code;
    this.retryable = retryable;
  }
}

/** There is no answer yet (code waiting), or the run was cancelled or is over. Do not catch it. */
export class Halt extends BatonError {}

const protocol = 1;
const window = 256 * 1024; // characters written before waiting for Baton to handle them
const halts = ["waiting", "cancelled", "stopping", "ended"];

interface Message {
  id?: number | string;
  method?: string;
  params?: any;
  result?: any;
  error?: { code?: number; message: string; data?: { code: string; retryable?: boolean } };
}

/** Serves an agent, tools, or both, until Baton closes standard input. Call it once. */
export function serve(
  agent: ((run: Run) => Output | Promise<Output>) | null,
  options: { description?: string; tools?: Tool[] } = {},
): void {
  const { input, write, beat } = pipes();
  globalThis.console = new Console(process.stderr);
  const connection = new Connection(agent, options.description ?? "", options.tools ?? [], write, beat);
  createInterface({ input, crlfDelay: Infinity })
    .on("line", line => line.trim() && connection.take(JSON.parse(line)))
    .on("close", () => process.exit(0));
}

interface Pipes {
  input: NodeJS.ReadableStream;
  write: (line: string) => void;
  /** Writes a line in each period, in milliseconds. */
  beat?: (line: string, period: number) => void;
}

/**
 * Returns the pipes to Baton, and puts others in their places: nothing that the program or its children read or print is a message.
 * Where the system does not open its own files once more, only what JavaScript prints is redirected.
 */
function pipes(): Pipes {
  const own = (fd: number, flags: number) =>
    openSync(process.platform === "linux" ? `/proc/self/fd/${fd}` : `/dev/fd/${fd}`, flags);
  const opened: number[] = [];
  try {
    opened.push(own(0, constants.O_RDONLY), own(1, constants.O_WRONLY), own(2, constants.O_WRONLY | constants.O_APPEND));
  } catch {
    opened.forEach(closeSync);
    const write = process.stdout.write.bind(process.stdout);
    process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
    return { input: process.stdin, write: line => void write(line) };
  }
  const [input, output, errors] = opened;
  closeSync(errors);
  closeSync(0);
  openSync("/dev/null", constants.O_RDONLY); // the lowest number that is free
  closeSync(1);
  own(2, constants.O_WRONLY | constants.O_APPEND);
  const writing = new Int32Array(new SharedArrayBuffer(4)); // 1 while a thread writes to output
  return {
    input: stream(input),
    write: line => {
      while (Atomics.compareExchange(writing, 0, 0, 1) !== 0) Atomics.wait(writing, 0, 1);
      try {
        for (let rest = Buffer.from(line); rest.length > 0; ) rest = rest.subarray(writeSync(output, rest));
      } finally {
        Atomics.store(writing, 0, 0);
      }
    },
    beat: (line, period) => {
      // A thread of its own writes also while the agent's code blocks this one.
      const beats = new Worker(beatEach, { eval: true, workerData: { line, period, output, writing } });
      beats.on("error", () => {}); // Baton has gone
      beats.unref();
    },
  };
}

/** Runs in the thread of beats, which has nothing else of this file. A line that is being written is a beat as well. */
const beatEach = `
  const { writeSync } = require("node:fs");
  const { line, period, output, writing } = require("node:worker_threads").workerData;
  setInterval(() => {
    if (Atomics.compareExchange(writing, 0, 0, 1) !== 0) return;
    try {
      writeSync(output, line);
    } finally {
      Atomics.store(writing, 0, 0);
      Atomics.notify(writing, 0);
    }
  }, period);`;

/** Returns a stream that reads a pipe without one of Node's few threads; other files need one. */
function stream(fd: number): NodeJS.ReadableStream {
  try {
    return new Socket({ fd, readable: true, writable: false });
  } catch {
    return createReadStream("", { fd });
  }
}

/** One run of the agent. Promises of its methods are rejected with a Halt once the run is over. */
export class Run {
  readonly input: Input;
  readonly query: string;
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal;

  readonly #connection: Connection;
  readonly #id: number | string;
  readonly #scope = new AsyncLocalStorage<string>();
  #messages = 0;
  #open: { role: string; message: number; kept: string } | null = null;
  #written = 0;
  #taken: Promise<unknown> = Promise.resolve();

  constructor(connection: Connection, id: number | string, input: Input, signal: AbortSignal) {
    this.#connection = connection;
    this.#id = id;
    this.input = input;
    this.query = input.query;
    this.signal = signal;
  }

  /** Writes a piece of the answer. Await it when writing much: it resolves when Baton keeps up. */
  text(delta: string): Promise<void> {
    return this.#say("assistant", delta);
  }

  /** Writes a piece of reasoning. */
  reason(delta: string): Promise<void> {
    return this.#say("reasoning", delta);
  }

  /** Returns a separate message, which its end completes. */
  message(role = "assistant", stage = ""): { write(delta: string): Promise<void>; end(): Promise<void> } {
    const message = ++this.#messages;
    const half = { kept: "" };
    return {
      write: delta => this.#notify("text", { message, role, stage, delta: whole(half, delta) }),
      end: () => this.#notify("text", { message, role, stage, delta: "", end: true }),
    };
  }

  /** Merges patch into the thread's state, as in RFC 7396. */
  state(patch: Json): Promise<void> {
    return this.#notify("state", { patch });
  }

  /** Reports the progress, from 0 to 1. */
  progress(fraction: number, message = ""): Promise<void> {
    return this.#notify("progress", { fraction, message });
  }

  /** Writes an AG-UI event. An illegal event is refused. */
  async emit(event: { type: string; [name: string]: unknown }): Promise<void> {
    await this.#request("emit", { event });
  }

  /** Calls fn unless it is recorded, and returns its result after a round trip through JSON. */
  async do<T extends Json | void>(name: string, fn: () => T | Promise<T>): Promise<T> {
    const begun = await this.#request("do", { name });
    if (begun.scope === undefined) return begun.value;
    let value: T;
    try {
      value = JSON.parse(encode(resultOf(await this.#scope.run(begun.scope, fn))) ?? "null"); // as it is on replay
    } catch (err) {
      await this.#request("done", { scope: begun.scope, error: failure(err) }).catch(() => {});
      throw err;
    }
    await this.#request("done", { scope: begun.scope, value });
    return value;
  }

  /** Calls fn with separate records, for concurrent work; the key must be the same on replay. */
  async branch<T>(key: string, fn: () => T | Promise<T>): Promise<T> {
    const { scope } = await this.#request("branch", { key });
    return this.#scope.run(scope, fn);
  }

  /** Calls a tool. A failed tool does not reject: see the status of its output. */
  async tool(name: string, args: object = {}): Promise<ToolOutput> {
    return (await this.tools([name, args]))[0];
  }

  /** Makes several calls concurrently and returns their outputs in order. */
  async tools(...calls: [name: string, args?: object][]): Promise<ToolOutput[]> {
    const asked = calls.map(([name, args]) => ({ name, args: args ?? {} }));
    return (await this.#request("tools", { calls: asked })).outputs;
  }

  /** Runs another agent inside this run. */
  agent(name: string, query: string): Promise<{ status: string; answer: string; key_points?: string[] }> {
    return this.#request("agent", { name, query });
  }

  /** Asks a person. The question's other members are those of an AG-UI interrupt. */
  ask(
    message: string,
    responseSchema?: object,
    more: object = {},
  ): Promise<{ cancelled?: boolean; payload?: any }> {
    return this.#request("ask", { question: { message, responseSchema, ...more } });
  }

  /** Waits for seconds; from two on the run is parked, and the function is replayed afterwards. */
  async sleep(seconds: number): Promise<void> {
    await this.#request("sleep", { seconds });
  }

  /** Is sleep until a time. */
  async sleepUntil(when: Date): Promise<void> {
    await this.#request("sleep", { until: when.toISOString() });
  }

  /** Waits for an event that is sent to the run, for so many seconds at most. The payload is absent if it has expired. */
  waitFor(name: string, within?: number): Promise<{ expired?: boolean; payload?: any }> {
    return this.#request("waitFor", { name, within });
  }

  /** Returns the messages appended since the start or the last next. */
  async next(): Promise<Input["messages"]> {
    return (await this.#request("next", {})).messages;
  }

  /** Counts tokens. */
  async usage(usage: { provider: string; model: string; inputTokens?: number; outputTokens?: number }): Promise<void> {
    await this.#request("usage", { usage });
  }

  #say(role: string, delta: string): Promise<void> {
    if (delta === "") return Promise.resolve();
    if (this.#open?.role !== role) this.#open = { role, message: ++this.#messages, kept: "" };
    delta = whole(this.#open, delta);
    if (delta === "") return Promise.resolve();
    return this.#notify("text", { message: this.#open.message, role, delta });
  }

  /** Sends a notification, or once per window a request, whose response shows that Baton keeps up. */
  #notify(method: string, params: { delta?: string; [name: string]: unknown }): Promise<void> {
    if (this.signal.aborted) return quiet(Promise.reject(over()));
    this.#written += (params.delta?.length ?? 0) + 200;
    if (this.#written > window) {
      this.#written = 0;
      this.#taken = quiet(this.#request(method, params));
    } else {
      this.#connection.send({ method, params: { run: this.#id, ...params } });
    }
    return quiet(this.#taken.then(() => {}));
  }

  #request(method: string, params: object): Promise<any> {
    if (this.signal.aborted) return Promise.reject(over());
    const scope = this.#scope.getStore();
    return this.#connection.ask(this.signal, method, { run: this.#id, in: scope, ...params });
  }
}

/** quiet prevents an unhandled rejection; awaiting the promise still throws its error. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Returns text without half a character at its end, which is stored for the next piece of the message. */
function whole(message: { kept: string }, delta: string): string {
  const text = message.kept + delta;
  message.kept = /[\uD800-\uDBFF]$/.test(text) ? text.slice(-1) : "";
  return message.kept === "" ? text : text.slice(0, -1);
}

const over = () => new Halt("the run is over", "ended");

function failure(err: unknown): NonNullable<Message["error"]> {
  let message = "The agent has thrown something without a text";
  try {
    message = String(err instanceof Error ? err.message : err);
  } catch {}
  if (err instanceof BatonError) {
    return { code: -32000, message, data: { code: String(err.code), retryable: Boolean(err.retryable) } };
  }
  return { code: -32000, message };
}

/** Returns value as JSON. A number that JSON does not have is an error: null would mean something else. */
function encode(value: unknown): string {
  return JSON.stringify(value, (name, member) => {
    if (typeof member !== "number" || Number.isFinite(member)) return member;
    throw new TypeError(`${name || "the value"} is ${member}, which JSON does not have`);
  });
}

/** Returns a function's result, null for none. */
function resultOf(value: any): unknown {
  if (typeof value?.next === "function" && (value[Symbol.iterator] || value[Symbol.asyncIterator])) {
    throw new TypeError("a generator is no result: write pieces with run.text, and return the rest");
  }
  return value ?? null;
}

/** The pipes to Baton, and the open requests. */
class Connection {
  readonly #agent: ((run: Run) => Output | Promise<Output>) | null;
  readonly #description: string;
  readonly #tools: Map<string, Tool>;
  readonly #write: (line: string) => void;
  readonly #beat: Pipes["beat"];
  readonly #waiting = new Map<string, (m: Message) => void>();
  readonly #atWork = new Map<number | string, AbortController>();
  #asked = 0;

  constructor(
    agent: ((run: Run) => Output | Promise<Output>) | null,
    description: string,
    tools: Tool[],
    write: (line: string) => void,
    beat: Pipes["beat"],
  ) {
    this.#write = write;
    this.#beat = beat;
    this.#agent = agent;
    this.#description = description;
    this.#tools = new Map(tools.map(t => [t.name, t]));
  }

  take(m: Message): void {
    if (m.method === undefined) {
      this.#waiting.get(String(m.id))?.(m);
    } else if (m.method === "cancel") {
      this.#atWork.get(m.params.id)?.abort();
    } else if (m.method === "initialize") {
      const tools = [...this.#tools.values()].map(({ call, ...info }) => info);
      const agent = this.#agent && { description: this.#description };
      const { alive } = m.params;
      this.send({ id: m.id, result: { protocol, alive: Boolean(this.#beat && alive), tools, ...(agent && { agent }) } });
      if (alive) this.#beat?.(line({ method: "alive" }), alive);
    } else if (m.method === "run" && this.#agent) {
      const agent = this.#agent;
      this.#work(m.id!, signal => agent(new Run(this, m.id!, m.params.input, signal)));
    } else if (m.method === "call" && this.#tools.has(m.params.tool)) {
      this.#work(m.id!, signal => this.#tools.get(m.params.tool)!.call(m.params.args, signal));
    } else if (m.id !== undefined) {
      this.send({ id: m.id, error: { code: -32601, message: `no method ${m.method}` } });
    }
  }

  async #work(id: number | string, fn: (signal: AbortSignal) => unknown): Promise<void> {
    const controller = new AbortController();
    this.#atWork.set(id, controller);
    let answer: string;
    try {
      answer = line({ id, result: resultOf(await fn(controller.signal)) });
    } catch (err) {
      try {
        if (!(err instanceof BatonError)) console.error(err);
      } catch {}
      answer = line({ id, error: failure(err) });
    }
    this.#atWork.delete(id);
    this.#write(answer);
  }

  ask(signal: AbortSignal, method: string, params: object): Promise<any> {
    const id = `b${++this.#asked}`;
    return new Promise((resolve, reject) => {
      const asked = line({ id, method, params }); // rejects what is no JSON
      const stop = () => {
        this.#waiting.delete(id);
        reject(over());
      };
      signal.addEventListener("abort", stop, { once: true });
      this.#waiting.set(id, m => {
        signal.removeEventListener("abort", stop);
        this.#waiting.delete(id);
        if (!m.error) return resolve(m.result);
        const { code = "failed", retryable = false } = m.error.data ?? {};
        const Kind = halts.includes(code) ? Halt : BatonError;
        reject(new Kind(m.error.message, code, retryable));
      });
      this.#write(asked);
    });
  }

  send(m: Message): void {
    this.#write(line(m));
  }
}

const line = (m: Message) => encode({ jsonrpc: "2.0", ...m }) + "\n";
