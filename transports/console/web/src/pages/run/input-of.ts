import { reworded } from "../../api/threads";
import type { Run, RunRequest, ThreadMessage } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { plainText } from "../../ui/message";

/** RunInput is the input of a run, as far as its log contains it. */
export interface RunInput {
  messages: ThreadMessage[];
  state?: unknown;
}

/** inputOf returns the run's input from its log, null until that is read. */
export function inputOf(log: RunLog): RunInput | null {
  const at = log.events.findIndex(({ event }) => event.type === "RUN_STARTED");
  const input = log.events[at]?.event.input as Partial<RunInput> | undefined;
  if (!input) return null;
  const next = log.events[at + 1]?.event;
  return { messages: input.messages ?? [], ...(next?.type === "STATE_SNAPSHOT" && { state: next.snapshot }) };
}

/** askedOf returns the message that started a run. */
export const askedOf = (input: RunInput | null) => input?.messages.findLast((m) => m.role === "user");

/** textOf returns the text of a run's input. */
export function textOf(run: Run, input: RunInput | null): string {
  const asked = askedOf(input);
  return asked ? plainText(asked.content) : run.inputQuery;
}

/** withoutMessages returns a request like the run's, without messages. */
export function withoutMessages(run: Run, input: RunInput | null): RunRequest {
  return {
    ...(run.agent === null ? { workflowId: run.workflowId } : { agent: run.agent }),
    ...(input?.state !== undefined && { state: input.state as RunRequest["state"] }),
    ...(run.contextItemIds.length > 0 && { contextItemIds: run.contextItemIds }),
  };
}

/** again returns a request like the run's, with another text. */
export function again(run: Run, input: RunInput | null, text = textOf(run, input)): RunRequest {
  const same = withoutMessages(run, input);
  const asked = askedOf(input);
  if (!input || !asked) return text.trim() ? { ...same, content: text } : same;
  const messages = input.messages.map(({ id: _, ...m }, i) =>
    input.messages[i] === asked && text !== plainText(asked.content) ? { ...m, content: reworded(m.content, text) } : m,
  );
  return { ...same, messages };
}
