import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { useProject, useSocket } from "../app/context";
import type { Observable } from "./observable";
import { RunLog } from "./runlog";
import { ThreadLog } from "./threadlog";

/** useObservable renders again whenever the object has changed, and returns how often that was. */
export function useObservable(o: Observable): number {
  return useSyncExternalStore(o.subscribe, o.snapshot);
}

/**
 * useRunLog is the log of a run, live while the run is open. stored is the id of the last event that the server is known to
 * have: the log reads on when it is behind.
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

/** useThreadLog is a thread's messages and state, live. generation is changed when it is to be looked at anew: what was read stays until then. */
export function useThreadLog(threadId: string, generation = 0): ThreadLog {
  const project = useProject();
  const socket = useSocket();
  const log = useMemo(() => new ThreadLog(project, threadId), [project, threadId]);
  useEffect(() => () => log.end(), [log]);
  useEffect(() => log.follow(socket), [log, socket, generation]);
  useObservable(log);
  return log;
}
