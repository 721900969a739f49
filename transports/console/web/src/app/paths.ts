import type { Run } from "../api/types";

type Which = Pick<Run, "id"> & { user?: string };

/** runPath returns the page of a run. The user distinguishes runs with the same id. */
export function runPath(run: Which): string {
  const query = run.user === undefined ? "" : `?user=${encodeURIComponent(run.user)}`;
  return `/runs/${encodeURIComponent(run.id)}${query}`;
}

/** comparePath returns the page that compares two runs. */
export function comparePath(one: Which, other: Which): string {
  const query = new URLSearchParams({ one: one.id, other: other.id });
  if (one.user !== undefined) query.set("oneUser", one.user);
  if (other.user !== undefined) query.set("otherUser", other.user);
  return `/compare?${query}`;
}
