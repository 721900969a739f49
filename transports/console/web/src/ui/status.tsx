import type { ReactNode } from "react";
import type { NodeState, Status } from "../api/types";
import * as icons from "./icons";

type Any = Status | NodeState["status"];
export type Tone = "run" | "wait" | "good" | "bad" | "idle";

interface Look {
  tone: Tone;
  word: string;
  icon: ReactNode;
}

const looks: Record<Any, Look> = {
  QUEUED: { tone: "idle", word: "Queued", icon: <icons.Ring /> },
  PENDING: { tone: "idle", word: "Pending", icon: <icons.Ring /> },
  RUNNING: { tone: "run", word: "Running", icon: <icons.Dot /> },
  WAITING: { tone: "wait", word: "Waiting", icon: <icons.Pause /> },
  COMPLETED: { tone: "good", word: "Completed", icon: <icons.Check /> },
  FAILED: { tone: "bad", word: "Failed", icon: <icons.Cross /> },
  CANCELLED: { tone: "idle", word: "Cancelled", icon: <icons.Stop /> },
  SKIPPED: { tone: "idle", word: "Skipped", icon: <icons.Dash /> },
};

export const statuses: Status[] = ["QUEUED", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"];

/** tone returns the colour of a status. */
export const tone = (status: Any): Tone => looks[status].tone;

/** word returns the display name of a status. */
export const word = (status: Any): string => looks[status].word;

/** StatusBadge shows a status by colour, shape and name. */
export function StatusBadge({ status }: { status: Any }) {
  const look = looks[status];
  return (
    <span className="badge" data-tone={look.tone} data-status={status}>
      <span className={status === "RUNNING" ? "alive row" : "row"}>{look.icon}</span>
      {look.word}
    </span>
  );
}
