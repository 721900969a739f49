import { immutableJSONPatch, type JSONPatchDocument } from "immutable-json-patch";
import type { Logged } from "../api/types";

/** Known is the state as of a change, and as it was before. */
export interface Known {
  id: number; // of the event
  runId: string;
  state: unknown;
  before: unknown;
}

const apart = 256; // changes between two states that are kept

/** States is a state over time. It keeps the changes, and works out what somebody looks at: all states of a long log would fill the memory. */
export class States {
  /** Whether the state before the first change is known; where not, changes are shown on an empty one. */
  based = false;

  private base: unknown = {};
  private readonly changes: Logged[] = [];
  private kept = new Map<number, unknown>(); // after so many changes
  private near = { count: 0, state: this.base, before: this.base, stepped: false }; // that was worked out last

  get length(): number {
    return this.changes.length;
  }

  /** start says what the state was before the first change. */
  start(state: unknown) {
    this.base = state;
    this.based = true;
    this.kept.clear();
    this.near = { count: 0, state, before: state, stepped: false };
  }

  /** push takes an event that changes the state. */
  push(logged: Logged) {
    if (this.changes.length === 0 && logged.event.type === "STATE_SNAPSHOT") this.based = true;
    this.changes.push(logged);
  }

  /** idAt is the id of the event of a change. */
  idAt(index: number): number {
    return this.changes[index]?.id ?? 0;
  }

  /** indexAt is the latest change that an event had before it, or was; -1 for none. */
  indexAt(id: number): number {
    return this.changes.findLastIndex((c) => c.id <= id);
  }

  /** latest is the state as it is now. */
  latest(): unknown {
    const { length } = this.changes;
    while (length > 0 && !this.look(length - 1));
    return length === 0 ? this.base : this.near.state;
  }

  /** look is the state as of a change, null when that takes longer than a page should wait: ask again then. */
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

  // The nearest place from which a change can be reached.
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

/** patched is a value after a JSON Patch, and the value itself when that is meant for another. */
export function patched(value: unknown, patch: unknown): unknown {
  try {
    return immutableJSONPatch(value ?? {}, patch as JSONPatchDocument);
  } catch {
    return value;
  }
}
