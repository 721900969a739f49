import type { Run } from "../../api/types";
import type { RunLog } from "../../log/runlog";

/** documentOf returns a run and its log as one JSON document, in the form of baton runs export. */
export function documentOf(run: Run, log: RunLog): Blob {
  const parts = [`{"run":${JSON.stringify(run)},\n"events":[`];
  log.events.forEach(({ id, event }, i) => parts.push(`${i > 0 ? "," : ""}\n{"event_id":${id},"event":${JSON.stringify(event)}}`));
  parts.push("]}\n");
  return new Blob(parts, { type: "application/json" });
}
