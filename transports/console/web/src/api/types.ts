import type { components } from "./schema";

type Schemas = components["schemas"];

export type Run = Schemas["Run"] & Partial<RunExtras>;
export type Status = Run["status"];
export type NodeState = Schemas["NodeState"];
export type Interrupt = Schemas["Interrupt"];
export type Thread = Schemas["Thread"];
export type ThreadMessage = Schemas["ThreadMessage"];
export type ThreadMessages = Schemas["ThreadMessages"];
export type ToolCall = Schemas["ToolCall"];
export type Agent = Schemas["Agent"] & Partial<Offered>;
export type Tool = Schemas["Tool"] & Partial<Offered>;
export type Workflow = Schemas["Workflow"] & Partial<Offered>;
export type WorkflowNode = Schemas["WorkflowNode"];
export type Limits = Schemas["Limits"];
export type Audited = Schemas["Audited"];
export type TokenUsage = Schemas["TokenUsage"];
export type OutputError = Schemas["OutputError"];
export type RunRequest = Schemas["RunRequest"];
export type Attachment = Schemas["Attachment"];
export type ModelCall = Schemas["WholeModelCall"];
export type SentMessage = Schemas["SentMessage"];
export type ResumeEntry = Schemas["ResumeEntry"];

/** Fields of runs on newer servers. */
export interface RunExtras {
  user: string;
  cost: number | null;
  inputTokens: number;
  outputTokens: number;
  attempts: number;
  threadTitle: string | null;
}

/** Fields of agents, tools and workflows on newer servers. */
export interface Offered {
  origin: Origin;
  health: { ok: boolean; since: string | null; detail: string | null } | null;
  model: { provider: string; name: string | null } | null;
  tools: string[] | null;
}

export interface Origin {
  kind: "built-in" | "yaml" | "mcp" | "remote" | "process" | "program";
  file?: string | null;
  line?: number | null;
  server?: string | null;
  url?: string | null;
}

export type Role = "user" | "viewer" | "operator" | "admin";

/** Me is the caller, with its permissions. */
export interface Me {
  user: string;
  projectId: string;
  projects: string[];
  role: Role;
  authentication: "none" | "api-key" | "jwt" | "custom";
  expiresAt: string | null;
  version: string;
  currency: string | null; // of costs; null on a server without prices
}

export interface Percentiles {
  p50: number;
  p95: number;
}

export interface StatsBucket {
  at: string;
  started: number;
  completed: number;
  failed: number;
  cancelled: number;
  firstEventMs: Percentiles | null;
  durationMs: Percentiles | null;
}

export type Window = "hour" | "day" | "week";

/** Stats is the statistics of a project over a window. */
export interface Stats {
  window: Window;
  from: string;
  to: string;
  step: number; // seconds
  counting?: boolean; // older runs are not included yet
  buckets: StatsBucket[];
  totals: Omit<StatsBucket, "at">;
  failures: { code: string; count: number }[];
  agents: {
    agent: string;
    runs: number;
    failed: number;
    inputTokens: number;
    outputTokens: number;
    cost: number | null;
    durationMs: Percentiles | null;
  }[];
  now: { running: number; queued: number; waiting: number; parked: number; oldestQueuedAt: string | null; oldestWaitingAt: string | null };
  instances: {
    id: string;
    version: string | null;
    address?: string | null;
    startedAt: string;
    heartbeatAt: string;
    serving: boolean;
    ended: string | null;
  }[];
}

/** Usage is what model calls have used. */
export interface Usage {
  items: {
    day?: string;
    user?: string;
    agent?: string;
    provider?: string;
    model?: string;
    calls: number;
    tokens: number;
    inputTokens: number;
    outputTokens: number;
    cost: number | null;
    currency: string | null;
  }[];
}

/** Budget is a limit on what model calls may use, with its use. */
export interface Budget {
  name: string;
  scope: "project" | "user" | "agent" | "run";
  of: string | null;
  unit: string;
  limit: number;
  used: number | null; // null for each run's
  resetsAt: string | null;
  over: "stop" | "ask";
}

/** Waiting is an open question of a run. */
export interface Waiting extends Interrupt {
  runId: string;
  threadId: string;
  conversationId: string;
  agent: string | null;
  user: string;
  createdAt: string;
  toolName?: string | null; // of a waiting call
  arguments?: unknown;
}

/** LogEvent is an event in the log. */
export interface LogEvent {
  type: string;
  runId?: string;
  threadId?: string;
  timestamp?: number;
  [member: string]: unknown;
}

/** Logged is an event with its id. */
export interface Logged {
  id: number;
  event: LogEvent;
}
