import { immutableJSONPatch, type JSONPatchDocument } from "immutable-json-patch";
import type { Logged } from "../api/types";

/** Known is the state after a change, and before it. */
export interface Known {
  id: number; // of the event
  runId: string;
  state: unknown;
  before: unknown;
}

const apart = 256; // changes between two stored states

/** States is a state over time. It stores the changes and computes requested states, because all states of a long log would not fit in memory. */
export class States {
  /** Whether the state before the first change is known; otherwise changes apply to an empty state. */
  based = false;

  private base: unknown = {};
  private readonly changes: Logged[] = [];
  private kept = new Map<number, unknown>(); // by number of changes
  private near = { count: 0, state: this.base, before: this.base, stepped: false }; // the last computed state

  get length(): number {
    return this.changes.length;
  }

  /** start sets the state before the first change. */
  start(state: unknown) {
    this.base = state;
    this.based = true;
    this.kept.clear();
    this.near = { count: 0, state, before: state, stepped: false };
  }

  /** push adds an event that changes the state. */
  push(logged: Logged) {
    if (this.changes.length === 0 && logged.event.type === "STATE_SNAPSHOT") this.based = true;
    this.changes.push(logged);
  }

  /** idAt returns the event id of a change. */
  idAt(index: number): number {
    return this.changes[index]?.id ?? 0;
  }

  /** indexAt returns the index of the latest change at or before an event, -1 for none. */
  indexAt(id: number): number {
    return this.changes.findLastIndex((c) => c.id <= id);
  }

  /** latest returns the current state. */
  latest(): unknown {
    const { length } = this.changes;
    while (length > 0 && !this.look(length - 1));
    return length === 0 ? this.base : this.near.state;
  }

  /** look returns the state after a change, or null if computing it would block the page for too long: call it again then. */
  look(index: number): Known | null {
    const change = this.changes[index];
    if (!change) return null;
    this.begin(index);
    const until = performance.now() + 8;
    while (this.near.count <= index) {
      if (performance.now() > until) return null;
      this.step();
    }
    return { id: change.id, runId: change.event.runId ?? "", state: this.near.state, before: this.near.before };
  }

  // The nearest stored state before a change.
  private begin(index: number) {
    if (this.near.count === index + 1 && this.near.stepped) return;
    let count = this.near.count <= index ? this.near.count : 0;
    for (let n = index - (index % apart); n > count; n -= apart) if (this.kept.has(n)) count = n;
    for (let n = index; n > count; n--) {
      const known = this.changes[n - 1];
      if (known?.event.type !== "STATE_SNAPSHOT") continue;
      this.near = { count: n, state: known.event.snapshot, before: undefined, stepped: false };
      return;
    }
    if (count === this.near.count) return;
    const state = count === 0 ? this.base : this.kept.get(count);
    this.near = { count, state, before: state, stepped: false };
  }

  private step() {
    const { count, state } = this.near;
    const event = this.changes[count]?.event;
    const next = event?.type === "STATE_SNAPSHOT" ? event.snapshot : patched(state, event?.delta);
    this.near = { count: count + 1, state: next, before: state, stepped: true };
    if ((count + 1) % apart === 0) this.kept.set(count + 1, next);
  }
}

/** patched applies a JSON Patch to a value, and returns the value unchanged if the patch does not fit. */
export function patched(value: unknown, patch: unknown): unknown {
  try {
    return immutableJSONPatch(value ?? {}, patch as JSONPatchDocument);
  } catch {
    return value;
  }
}
