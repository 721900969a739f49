import { reworded } from "../../api/threads";
import type { Run, RunRequest, ThreadMessage } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { plainText } from "../../ui/message";

/** RunInput is what a run was started with, as far as its log tells. */
export interface RunInput {
  messages: ThreadMessage[];
  state?: unknown;
}

/** inputOf is what the log says that its run was started with, null before that is read. */
export function inputOf(log: RunLog): RunInput | null {
  const at = log.events.findIndex(({ event }) => event.type === "RUN_STARTED");
  const input = log.events[at]?.event.input as Partial<RunInput> | undefined;
  if (!input) return null;
  const next = log.events[at + 1]?.event;
  return { messages: input.messages ?? [], ...(next?.type === "STATE_SNAPSHOT" && { state: next.snapshot }) };
}

/** askedOf is the message that a run was started for. */
export const askedOf = (input: RunInput | null) => input?.messages.findLast((m) => m.role === "user");

/** textOf is what a run was asked. */
export function textOf(run: Run, input: RunInput | null): string {
  const asked = askedOf(input);
  return asked ? plainText(asked.content) : run.inputQuery;
}

/** withoutMessages is a request for the same again, but for what is said. */
export function withoutMessages(run: Run, input: RunInput | null): RunRequest {
  return {
    ...(run.agent === null ? { workflowId: run.workflowId } : { agent: run.agent }),
    ...(input?.state !== undefined && { state: input.state as RunRequest["state"] }),
    ...(run.contextItemIds.length > 0 && { contextItemIds: run.contextItemIds }),
  };
}

/** again is a request for the same again, with that text in the place of what was asked. */
export function again(run: Run, input: RunInput | null, text = textOf(run, input)): RunRequest {
  const same = withoutMessages(run, input);
  const asked = askedOf(input);
  if (!input || !asked) return text.trim() ? { ...same, content: text } : same;
  const messages = input.messages.map(({ id: _, ...m }, i) =>
    input.messages[i] === asked && text !== plainText(asked.content) ? { ...m, content: reworded(m.content, text) } : m,
  );
  return { ...same, messages };
}
