import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { useProject, useSocket } from "../app/context";
import type { Observable } from "./observable";
import { RunLog } from "./runlog";
import { ThreadLog } from "./threadlog";

/** useObservable renders again after each change of the object, and returns the number of changes. */
export function useObservable(o: Observable): number {
  return useSyncExternalStore(o.subscribe, o.snapshot);
}

/**
 * useRunLog returns the log of a run, live while the run is open. stored is the id of the last known event on the server: the log
 * reads up to it.
 */
export function useRunLog(conversationId: string, runId: string, open: boolean, stored: number): RunLog {
  const project = useProject();
  const socket = useSocket();
  const log = useMemo(() => new RunLog(project, conversationId, runId), [project, conversationId, runId]);
  const known = useRef(stored);
  useEffect(() => {
    void log.read(known.current);
    return () => log.end();
  }, [log]);
  useEffect(() => log.follow(open ? socket : null), [log, open, socket]);
  useEffect(() => {
    if (log.complete && stored > log.last) void log.read(stored);
  }, [log, stored, open]);
  useObservable(log);
  return log;
}

/** useThreadLog returns a thread's messages and state, live. A change of generation reads them again; the old ones stay until then. */
export function useThreadLog(threadId: string, generation = 0): ThreadLog {
  const project = useProject();
  const socket = useSocket();
  const log = useMemo(() => new ThreadLog(project, threadId), [project, threadId]);
  useEffect(() => () => log.end(), [log]);
  useEffect(() => log.follow(socket), [log, socket, generation]);
  useObservable(log);
  return log;
}
