import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useSocket } from "./context";

// What is asked for again when the server says that something has changed, by the first word of its key, and how often at most, in
// milliseconds: a list is dearer than a row.
const paces: [words: string[], ms: number][] = [
  [["run"], 500],
  [["runs", "waiting", "threads", "users"], 1_500],
  [["stats"], 5_000],
];

/** How many pages of a list are asked for again: who reads further back is not waiting for news. */
export const near = 3;

/** useLive has what is shown be asked for again when it has changed, and after the connection was lost. Nothing is asked for in a tab that is hidden. */
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
      if (!document.hidden) for (const look of looks) look.soon(); // a tab that is looked at again looks by itself
    });
    return () => {
      off();
      for (const look of looks) look.stop();
    };
  }, [queries, socket]);
}

const pagesOf = (data: unknown) => (data as { pages?: unknown[] } | undefined)?.pages?.length ?? 0;

// paced does something at once, and not again before so many milliseconds have gone.
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
