import { useRef } from "react";
import { CopyButton } from "../../ui/basics";
import { CodeEditor } from "../../ui/code-editor";
import { JsonTree, parsed } from "../../ui/json";
import { isObject } from "./request";

/** StateTab shows the thread's state live, and edits the state that the next message sets. */
export function StateTab({ state, staged, stage }: { state: unknown; staged: string | null; stage: (text: string | null) => void }) {
  const before = usePrevious(state);
  if (staged !== null) {
    const value = parsed(staged);
    const empty = isObject(value) && Object.keys(value).length === 0;
    return (
      <div className="stack">
        <CodeEditor label="State" value={staged} onChange={stage} height={200} />
        <p className={isObject(value) && !empty ? "muted" : "wrong"} role="status">
          {!isObject(value) ? "The state must be a JSON object." : empty ? "An empty object does not change the state." : "The next message replaces the thread’s state with it."}
        </p>
        <div>
          <button type="button" className="button small" onClick={() => stage(null)}>
            Keep the thread’s state
          </button>
        </div>
      </div>
    );
  }
  const text = () => JSON.stringify(state, null, 2);
  return (
    <div className="stack">
      <JsonTree value={state} before={before} depth={4} />
      <div className="row">
        <button type="button" className="button small" onClick={() => stage(text())}>
          Edit
        </button>
        <CopyButton text={text} />
      </div>
    </div>
  );
}

// The previous value, undefined before the first change.
function usePrevious(value: unknown): unknown {
  const seen = useRef<{ now: unknown; before: unknown }>({ now: value, before: undefined });
  if (seen.current.now !== value) seen.current = { now: value, before: seen.current.now };
  return seen.current.before;
}
