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
/** An error whose text clients see; the text of other errors is only logged. */
export class BatonError extends Error {
    code;
    retryable;
    constructor(message, code = "failed", retryable = false) {
        super(message);
        this.code = code;
        this.retryable = retryable;
    }
}
/** There is no answer yet (code waiting), or the run was cancelled or is over. Do not catch it. */
export class Halt extends BatonError {
}
const protocol = 1;
const window = 256 * 1024; // characters written before waiting for Baton to handle them
const halts = ["waiting", "cancelled", "stopping", "ended"];
/** Serves an agent, tools, or both, until Baton closes standard input. Call it once. */
export function serve(agent, options = {}) {
    const { input, write, beat } = pipes();
    globalThis.console = new Console(process.stderr);
    const connection = new Connection(agent, options.description ?? "", options.tools ?? [], write, beat);
    createInterface({ input, crlfDelay: Infinity })
        .on("line", line => line.trim() && connection.take(JSON.parse(line)))
        .on("close", () => process.exit(0));
}
/**
 * Returns the pipes to Baton, and puts others in their places: nothing that the program or its children read or print is a message.
 * Where the system does not open its own files once more, only what JavaScript prints is redirected.
 */
function pipes() {
    const own = (fd, flags) => openSync(process.platform === "linux" ? `/proc/self/fd/${fd}` : `/dev/fd/${fd}`, flags);
    const opened = [];
    try {
        opened.push(own(0, constants.O_RDONLY), own(1, constants.O_WRONLY), own(2, constants.O_WRONLY | constants.O_APPEND));
    }
    catch {
        opened.forEach(closeSync);
        const write = process.stdout.write.bind(process.stdout);
        process.stdout.write = process.stderr.write.bind(process.stderr);
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
            while (Atomics.compareExchange(writing, 0, 0, 1) !== 0)
                Atomics.wait(writing, 0, 1);
            try {
                for (let rest = Buffer.from(line); rest.length > 0;)
                    rest = rest.subarray(writeSync(output, rest));
            }
            finally {
                Atomics.store(writing, 0, 0);
            }
        },
        beat: (line, period) => {
            // A thread of its own writes also while the agent's code blocks this one.
            const beats = new Worker(beatEach, { eval: true, workerData: { line, period, output, writing } });
            beats.on("error", () => { }); // Baton has gone
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
function stream(fd) {
    try {
        return new Socket({ fd, readable: true, writable: false });
    }
    catch {
        return createReadStream("", { fd });
    }
}
/** One run of the agent. Promises of its methods are rejected with a Halt once the run is over. */
export class Run {
    input;
    query;
    /** Aborted when the run is cancelled. */
    signal;
    #connection;
    #id;
    #scope = new AsyncLocalStorage();
    #messages = 0;
    #open = null;
    #written = 0;
    #taken = Promise.resolve();
    constructor(connection, id, input, signal) {
        this.#connection = connection;
        this.#id = id;
        this.input = input;
        this.query = input.query;
        this.signal = signal;
    }
    /** Writes a piece of the answer. Await it when writing much: it resolves when Baton keeps up. */
    text(delta) {
        return this.#say("assistant", delta);
    }
    /** Writes a piece of reasoning. */
    reason(delta) {
        return this.#say("reasoning", delta);
    }
    /** Returns a separate message, which its end completes. */
    message(role = "assistant", stage = "") {
        const message = ++this.#messages;
        const half = { kept: "" };
        return {
            write: delta => this.#notify("text", { message, role, stage, delta: whole(half, delta) }),
            end: () => this.#notify("text", { message, role, stage, delta: "", end: true }),
        };
    }
    /** Merges patch into the thread's state, as in RFC 7396. */
    state(patch) {
        return this.#notify("state", { patch });
    }
    /** Reports the progress, from 0 to 1. */
    progress(fraction, message = "") {
        return this.#notify("progress", { fraction, message });
    }
    /** Writes an AG-UI event. An illegal event is refused. */
    async emit(event) {
        await this.#request("emit", { event });
    }
    /** Calls fn unless it is recorded, and returns its result after a round trip through JSON. */
    async do(name, fn) {
        const begun = await this.#request("do", { name });
        if (begun.scope === undefined)
            return begun.value;
        let value;
        try {
            value = JSON.parse(encode(resultOf(await this.#scope.run(begun.scope, fn))) ?? "null"); // as it is on replay
        }
        catch (err) {
            await this.#request("done", { scope: begun.scope, error: failure(err) }).catch(() => { });
            throw err;
        }
        await this.#request("done", { scope: begun.scope, value });
        return value;
    }
    /** Calls fn with separate records, for concurrent work; the key must be the same on replay. */
    async branch(key, fn) {
        const { scope } = await this.#request("branch", { key });
        return this.#scope.run(scope, fn);
    }
    /** Calls a tool. A failed tool does not reject: see the status of its output. */
    async tool(name, args = {}) {
        return (await this.tools([name, args]))[0];
    }
    /** Makes several calls concurrently and returns their outputs in order. */
    async tools(...calls) {
        const asked = calls.map(([name, args]) => ({ name, args: args ?? {} }));
        return (await this.#request("tools", { calls: asked })).outputs;
    }
    /** Runs another agent inside this run. */
    agent(name, query) {
        return this.#request("agent", { name, query });
    }
    /** Asks a person. The question's other members are those of an AG-UI interrupt. */
    ask(message, responseSchema, more = {}) {
        return this.#request("ask", { question: { message, responseSchema, ...more } });
    }
    /** Waits for seconds; from two on the run is parked, and the function is replayed afterwards. */
    async sleep(seconds) {
        await this.#request("sleep", { seconds });
    }
    /** Is sleep until a time. */
    async sleepUntil(when) {
        await this.#request("sleep", { until: when.toISOString() });
    }
    /** Waits for an event that is sent to the run, for so many seconds at most. The payload is absent if it has expired. */
    waitFor(name, within) {
        return this.#request("waitFor", { name, within });
    }
    /** Returns the messages appended since the start or the last next. */
    async next() {
        return (await this.#request("next", {})).messages;
    }
    /** Counts tokens. */
    async usage(usage) {
        await this.#request("usage", { usage });
    }
    #say(role, delta) {
        if (delta === "")
            return Promise.resolve();
        if (this.#open?.role !== role)
            this.#open = { role, message: ++this.#messages, kept: "" };
        delta = whole(this.#open, delta);
        if (delta === "")
            return Promise.resolve();
        return this.#notify("text", { message: this.#open.message, role, delta });
    }
    /** Sends a notification, or once per window a request, whose response shows that Baton keeps up. */
    #notify(method, params) {
        if (this.signal.aborted)
            return quiet(Promise.reject(over()));
        this.#written += (params.delta?.length ?? 0) + 200;
        if (this.#written > window) {
            this.#written = 0;
            this.#taken = quiet(this.#request(method, params));
        }
        else {
            this.#connection.send({ method, params: { run: this.#id, ...params } });
        }
        return quiet(this.#taken.then(() => { }));
    }
    #request(method, params) {
        if (this.signal.aborted)
            return Promise.reject(over());
        const scope = this.#scope.getStore();
        return this.#connection.ask(this.signal, method, { run: this.#id, in: scope, ...params });
    }
}
/** quiet prevents an unhandled rejection; awaiting the promise still throws its error. */
function quiet(promise) {
    promise.catch(() => { });
    return promise;
}
/** Returns text without half a character at its end, which is stored for the next piece of the message. */
function whole(message, delta) {
    const text = message.kept + delta;
    message.kept = /[\uD800-\uDBFF]$/.test(text) ? text.slice(-1) : "";
    return message.kept === "" ? text : text.slice(0, -1);
}
const over = () => new Halt("the run is over", "ended");
function failure(err) {
    let message = "The agent has thrown something without a text";
    try {
        message = String(err instanceof Error ? err.message : err);
    }
    catch { }
    if (err instanceof BatonError) {
        return { code: -32000, message, data: { code: String(err.code), retryable: Boolean(err.retryable) } };
    }
    return { code: -32000, message };
}
/** Returns value as JSON. A number that JSON does not have is an error: null would mean something else. */
function encode(value) {
    return JSON.stringify(value, (name, member) => {
        if (typeof member !== "number" || Number.isFinite(member))
            return member;
        throw new TypeError(`${name || "the value"} is ${member}, which JSON does not have`);
    });
}
/** Returns a function's result, null for none. */
function resultOf(value) {
    if (typeof value?.next === "function" && (value[Symbol.iterator] || value[Symbol.asyncIterator])) {
        throw new TypeError("a generator is no result: write pieces with run.text, and return the rest");
    }
    return value ?? null;
}
/** The pipes to Baton, and the open requests. */
class Connection {
    #agent;
    #description;
    #tools;
    #write;
    #beat;
    #waiting = new Map();
    #atWork = new Map();
    #asked = 0;
    constructor(agent, description, tools, write, beat) {
        this.#write = write;
        this.#beat = beat;
        this.#agent = agent;
        this.#description = description;
        this.#tools = new Map(tools.map(t => [t.name, t]));
    }
    take(m) {
        if (m.method === undefined) {
            this.#waiting.get(String(m.id))?.(m);
        }
        else if (m.method === "cancel") {
            this.#atWork.get(m.params.id)?.abort();
        }
        else if (m.method === "initialize") {
            const tools = [...this.#tools.values()].map(({ call, ...info }) => info);
            const agent = this.#agent && { description: this.#description };
            const { alive } = m.params;
            this.send({ id: m.id, result: { protocol, alive: Boolean(this.#beat && alive), tools, ...(agent && { agent }) } });
            if (alive)
                this.#beat?.(line({ method: "alive" }), alive);
        }
        else if (m.method === "run" && this.#agent) {
            const agent = this.#agent;
            this.#work(m.id, signal => agent(new Run(this, m.id, m.params.input, signal)));
        }
        else if (m.method === "call" && this.#tools.has(m.params.tool)) {
            this.#work(m.id, signal => this.#tools.get(m.params.tool).call(m.params.args, signal));
        }
        else if (m.id !== undefined) {
            this.send({ id: m.id, error: { code: -32601, message: `no method ${m.method}` } });
        }
    }
    async #work(id, fn) {
        const controller = new AbortController();
        this.#atWork.set(id, controller);
        let answer;
        try {
            answer = line({ id, result: resultOf(await fn(controller.signal)) });
        }
        catch (err) {
            try {
                if (!(err instanceof BatonError))
                    console.error(err);
            }
            catch { }
            answer = line({ id, error: failure(err) });
        }
        this.#atWork.delete(id);
        this.#write(answer);
    }
    ask(signal, method, params) {
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
                if (!m.error)
                    return resolve(m.result);
                const { code = "failed", retryable = false } = m.error.data ?? {};
                const Kind = halts.includes(code) ? Halt : BatonError;
                reject(new Kind(m.error.message, code, retryable));
            });
            this.#write(asked);
        });
    }
    send(m) {
        this.#write(line(m));
    }
}
const line = (m) => encode({ jsonrpc: "2.0", ...m }) + "\n";
