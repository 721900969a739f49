/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | {
    [name: string]: Json;
};
/** The input of a run, with the names from Baton's documentation. */
export interface Input {
    query: string;
    messages: {
        id: string;
        role: string;
        content?: Json;
        [name: string]: unknown;
    }[];
    state: {
        [name: string]: Json;
    };
    tools: Json[];
    context: {
        description: string;
        value: string;
    }[];
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
export type Output = void | null | string | {
    answer?: string;
    status?: string;
    key_points?: string[];
    result_type?: string;
    suggested_actions?: string[];
};
/** The output of a tool. A failed tool has the status failure. */
export interface ToolOutput {
    tool_name: string;
    tool_call_id: string;
    status: string;
    result_summary: string;
    error?: {
        code: string;
        message: string;
        retryable?: boolean;
    };
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
    call(args: {
        [name: string]: Json;
    }, signal: AbortSignal): unknown;
}
/** An error whose text clients see; the text of other errors is only logged. */
export declare class BatonError extends Error {
    readonly code: string;
    readonly retryable: boolean;
    constructor(message: string, code?: string, retryable?: boolean);
}
/** There is no answer yet (code waiting), or the run was cancelled or is over. Do not catch it. */
export declare class Halt extends BatonError {
}
interface Message {
    id?: number | string;
    method?: string;
    params?: any;
    result?: any;
    error?: {
        code?: number;
        message: string;
        data?: {
            code: string;
            retryable?: boolean;
        };
    };
}
/** Serves an agent, tools, or both, until Baton closes standard input. Call it once. */
export declare function serve(agent: ((run: Run) => Output | Promise<Output>) | null, options?: {
    description?: string;
    tools?: Tool[];
}): void;
interface Pipes {
    input: NodeJS.ReadableStream;
    write: (line: string) => void;
    /** Writes a line in each period, in milliseconds. */
    beat?: (line: string, period: number) => void;
}
/** One run of the agent. Promises of its methods are rejected with a Halt once the run is over. */
export declare class Run {
    #private;
    readonly input: Input;
    readonly query: string;
    /** Aborted when the run is cancelled. */
    readonly signal: AbortSignal;
    constructor(connection: Connection, id: number | string, input: Input, signal: AbortSignal);
    /** Writes a piece of the answer. Await it when writing much: it resolves when Baton keeps up. */
    text(delta: string): Promise<void>;
    /** Writes a piece of reasoning. */
    reason(delta: string): Promise<void>;
    /** Returns a separate message, which its end completes. */
    message(role?: string, stage?: string): {
        write(delta: string): Promise<void>;
        end(): Promise<void>;
    };
    /** Merges patch into the thread's state, as in RFC 7396. */
    state(patch: Json): Promise<void>;
    /** Reports the progress, from 0 to 1. */
    progress(fraction: number, message?: string): Promise<void>;
    /** Writes an AG-UI event. An illegal event is refused. */
    emit(event: {
        type: string;
        [name: string]: unknown;
    }): Promise<void>;
    /** Calls fn unless it is recorded, and returns its result after a round trip through JSON. */
    do<T extends Json | void>(name: string, fn: () => T | Promise<T>): Promise<T>;
    /** Calls fn with separate records, for concurrent work; the key must be the same on replay. */
    branch<T>(key: string, fn: () => T | Promise<T>): Promise<T>;
    /** Calls a tool. A failed tool does not reject: see the status of its output. */
    tool(name: string, args?: object): Promise<ToolOutput>;
    /** Makes several calls concurrently and returns their outputs in order. */
    tools(...calls: [name: string, args?: object][]): Promise<ToolOutput[]>;
    /** Runs another agent inside this run. */
    agent(name: string, query: string): Promise<{
        status: string;
        answer: string;
        key_points?: string[];
    }>;
    /** Asks a person. The question's other members are those of an AG-UI interrupt. */
    ask(message: string, responseSchema?: object, more?: object): Promise<{
        cancelled?: boolean;
        payload?: any;
    }>;
    /** Waits for seconds; from two on the run is parked, and the function is replayed afterwards. */
    sleep(seconds: number): Promise<void>;
    /** Is sleep until a time. */
    sleepUntil(when: Date): Promise<void>;
    /** Waits for an event that is sent to the run, for so many seconds at most. The payload is absent if it has expired. */
    waitFor(name: string, within?: number): Promise<{
        expired?: boolean;
        payload?: any;
    }>;
    /** Returns the messages appended since the start or the last next. */
    next(): Promise<Input["messages"]>;
    /** Counts tokens. */
    usage(usage: {
        provider: string;
        model: string;
        inputTokens?: number;
        outputTokens?: number;
    }): Promise<void>;
}
/** The pipes to Baton, and the open requests. */
declare class Connection {
    #private;
    constructor(agent: ((run: Run) => Output | Promise<Output>) | null, description: string, tools: Tool[], write: (line: string) => void, beat: Pipes["beat"]);
    take(m: Message): void;
    ask(signal: AbortSignal, method: string, params: object): Promise<any>;
    send(m: Message): void;
}
export {};
