import { diffArrays } from "diff";
import type { Item } from "../../log/timeline";

/** Pair is a line of one timeline beside the same line of another; null where one has no such line. */
export interface Pair {
  one: Item | null;
  other: Item | null;
}

/** aligned puts the lines of two timelines beside each other: those of the same kind, name and depth, in their order. */
export function aligned(one: Item[], other: Item[]): Pair[] {
  const key = (item: Item) => `${item.depth} ${item.kind} ${item.kind === "model" ? "" : item.name.replace(/:.*/, "")}`;
  const pairs: Pair[] = [];
  let [i, j] = [0, 0];
  for (const part of diffArrays(one.map(key), other.map(key))) {
    for (let n = part.value.length; n > 0; n--) {
      pairs.push({ one: part.added ? null : (one[i++] ?? null), other: part.removed ? null : (other[j++] ?? null) });
    }
  }
  return pairs;
}
