import { useSyncExternalStore } from "react";
import { say } from "../api/problem";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad";
}

let toasts: Toast[] = [];
let ids = 0;
const watchers = new Set<() => void>();

function change(next: Toast[]) {
  toasts = next;
  for (const w of watchers) w();
}

/** toast shows a message for a few seconds. */
export function toast(text: string, tone: Toast["tone"] = "good") {
  const id = ++ids;
  change([...toasts, { id, text, tone }]);
  setTimeout(() => change(toasts.filter((t) => t.id !== id)), tone === "bad" ? 8_000 : 4_000);
}

/** failed shows an error as a toast. */
export const failed = (error: unknown) => toast(say(error), "bad");

/** Toasts is the area of toasts. */
export function Toasts() {
  const list = useSyncExternalStore(
    (w) => {
      watchers.add(w);
      return () => watchers.delete(w);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {list.map((t) => (
        <div key={t.id} className="toast wrap" data-tone={t.tone}>
          {t.text}
        </div>
      ))}
    </div>
  );
}
