import type { RunRequest, ThreadMessage } from "../../api/types";
import type { RunLog } from "../../log/runlog";

/** RunInput is what a run was started with. */
export interface RunInput {
  messages: ThreadMessage[];
  state?: unknown;
  tools: NonNullable<RunRequest["tools"]>;
  context: NonNullable<RunRequest["context"]>;
  forwardedProps?: unknown;
}

/** inputOf is what the log says that its run was started with, null before that is read. */
export function inputOf(log: RunLog): RunInput | null {
  const started = log.events.find(({ event }) => event.type === "RUN_STARTED");
  const input = started?.event.input as Partial<RunInput> | undefined;
  if (!input) return null;
  return { ...input, messages: input.messages ?? [], tools: input.tools ?? [], context: input.context ?? [] };
}
