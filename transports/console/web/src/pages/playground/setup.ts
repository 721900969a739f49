import { useCallback, useState } from "react";
import { parse } from "../../api/json";
import type { RunRequest } from "../../api/types";
import { useMe } from "../../app/context";

/** Mock is a front-end tool that the user executes by hand. */
export interface Mock {
  name: string;
  description: string;
  parameters: unknown;
}

/** The worker: an agent or a workflow. */
export interface Worker {
  kind: "agent" | "workflow";
  name: string;
}

/** Overrides replace what the agent asks its model with. */
export interface Overrides {
  model: string; // empty for the agent's own
  system: string | null; // null for the agent's own
  parameters: string; // JSON; empty for the agent's own
}

/** Setup is the data that is sent with each message of a thread, as set in this tab. */
export interface Setup {
  worker: Worker | null; // null: the worker of the thread's last run
  text: string; // not sent yet
  tools: Mock[];
  context: { description: string; value: string }[];
  props: string; // JSON: forwardedProps
  before: string | null; // JSON: messages that begin the thread, before the first one that is written here
  state: string | null; // JSON: replaces the thread's state with the next message
  overrides: Overrides | null; // null: what the agent is configured with
  multitask: NonNullable<RunRequest["multitask"]>;
}

const fresh: Setup = { worker: null, text: "", tools: [], context: [], props: "", before: null, state: null, overrides: null, multitask: "enqueue" };

const keyOf = (user: string, threadId: string) => `baton.playground.${user}.${threadId}`;

/** prepare stores the setup of a thread that does not exist yet, for when the playground opens it. */
export function prepare(user: string, threadId: string, part: Partial<Setup>) {
  sessionStorage.setItem(keyOf(user, threadId), JSON.stringify({ ...fresh, ...part }));
}

/** useSetup stores a thread's setup in this tab, across reloads. */
export function useSetup(threadId: string): [Setup, (change: Partial<Setup>) => void] {
  const key = keyOf(useMe().user, threadId);
  const [setup, setSetup] = useState<Setup>(() => ({ ...fresh, ...kept(key) }));
  const change = useCallback(
    (part: Partial<Setup>) =>
      setSetup((before) => {
        const next = { ...before, ...part };
        sessionStorage.setItem(key, JSON.stringify(next));
        return next;
      }),
    [key],
  );
  return [setup, change];
}

function kept(key: string): Partial<Setup> {
  try {
    return parse(sessionStorage.getItem(key) ?? "{}") as Partial<Setup>;
  } catch {
    return {};
  }
}
