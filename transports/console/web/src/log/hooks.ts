import { useEffect, useRef, useState, useSyncExternalStore } from "react";
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
  const [log, setLog] = useState(() => new RunLog(project, conversationId, runId));
  const known = useRef(stored);
  useEffect(() => {
    const fresh = new RunLog(project, conversationId, runId);
    setLog(fresh);
    void fresh.read(known.current);
    return () => fresh.end();
  }, [project, conversationId, runId]);
  useEffect(() => log.follow(open ? socket : null), [log, open, socket]);
  useEffect(() => {
    if (log.complete && stored > log.last) void log.read(stored);
  }, [log, stored, open]);
  useObservable(log);
  return log;
}

/** useThreadLog is a thread's messages and state, live. generation is changed when a thread that was not there may be. */
export function useThreadLog(threadId: string, generation = 0): ThreadLog {
  const project = useProject();
  const socket = useSocket();
  const [log, setLog] = useState(() => new ThreadLog(project, threadId));
  useEffect(() => {
    const fresh = new ThreadLog(project, threadId);
    setLog(fresh);
    fresh.follow(socket);
    return () => fresh.end();
  }, [project, threadId, socket, generation]);
  useObservable(log);
  return log;
}
