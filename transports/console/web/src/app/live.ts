import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useSocket } from "./context";

// Queries that are requested again when the server reports a change, by the first word of their key, with the shortest interval in
// milliseconds: a list costs more than a row.
const paces: [words: string[], ms: number][] = [
  [["run"], 500],
  [["runs", "waiting", "threads", "users"], 1_500],
  [["stats"], 5_000],
];

/** Number of pages of a list that are requested again. Pages further back are not updated. */
export const near = 3;

/** useLive requests visible data again when it has changed, and after the connection was lost. A hidden tab requests nothing. */
export function useLive() {
  const queries = useQueryClient();
  const socket = useSocket();
  useEffect(() => {
    const looks = paces.map(([words, ms]) =>
      paced(ms, () => {
        void queries.invalidateQueries({
          predicate: ({ queryKey, state }) => words.includes(String(queryKey[0])) && pagesOf(state.data) <= near,
        });
      }),
    );
    const off = socket.changes(() => {
      if (!document.hidden) for (const look of looks) look.soon(); // a tab that becomes visible requests its data itself
    });
    return () => {
      off();
      for (const look of looks) look.stop();
    };
  }, [queries, socket]);
}

const pagesOf = (data: unknown) => (data as { pages?: unknown[] } | undefined)?.pages?.length ?? 0;

// paced calls its argument immediately, and then at most once in the interval.
function paced(ms: number, act: () => void) {
  let last = -Infinity;
  let timer: ReturnType<typeof setTimeout> | undefined;
  return {
    soon() {
      timer ??= setTimeout(() => {
        timer = undefined;
        last = performance.now();
        act();
      }, Math.max(0, last + ms - performance.now()));
    },
    stop: () => clearTimeout(timer),
  };
}
