import { useId } from "react";
import { CodeEditor } from "../../ui/code-editor";
import { parsed } from "../../ui/json";
import { isObject } from "./request";
import type { Overrides, Setup, Worker } from "./setup";

const none: Overrides = { model: "", system: null, parameters: "" };

/** ModelTab is what the agent's model is asked with instead of what the agent is configured with. */
export function ModelTab({ setup: { overrides }, change, worker }: { setup: Setup; change: (part: Partial<Setup>) => void; worker: Worker }) {
  const id = useId();
  if (worker.kind !== "agent") return <p className="muted">A workflow’s agents ask their models as they are configured.</p>;
  if (!overrides) {
    return (
      <div className="stack">
        <p className="muted">{worker.name || "The agent"} asks its model as it is configured.</p>
        <div>
          <button type="button" className="button" onClick={() => change({ overrides: none })}>
            Override it
          </button>
        </div>
      </div>
    );
  }
  const set = (part: Partial<Overrides>) => change({ overrides: { ...overrides, ...part } });
  return (
    <div className="stack">
      <div className="field">
        <label className="label" htmlFor={`${id}-model`}>
          Model
        </label>
        <input id={`${id}-model`} className="input mono" value={overrides.model} placeholder="the agent’s own" onChange={(e) => set({ model: e.target.value })} />
      </div>
      <div className="field">
        <label className="label" htmlFor={`${id}-system`}>
          Instructions
        </label>
        <textarea id={`${id}-system`} className="input" rows={8} value={overrides.system ?? ""} placeholder="the agent’s own" onChange={(e) => set({ system: e.target.value })} />
      </div>
      <CodeEditor label="Parameters" value={overrides.parameters} onChange={(parameters) => set({ parameters })} height={110} />
      {overrides.parameters.trim() !== "" && !isObject(parsed(overrides.parameters)) && <p className="muted" role="alert">The parameters are not a JSON object, so the agent’s own are used.</p>}
      <p className="muted">Another model of the same provider, without fallbacks. The parameters are temperature, topP, maxTokens, seed and stop; none means the agent’s own.</p>
      <div>
        <button type="button" className="button small" onClick={() => change({ overrides: null })}>
          Ask as it is configured
        </button>
      </div>
    </div>
  );
}
