import { useId } from "react";
import { CodeEditor } from "../../ui/code-editor";
import * as icons from "../../ui/icons";
import { parsed } from "../../ui/json";
import { isObject } from "./request";
import type { Setup } from "./setup";

const multitasks: { id: Setup["multitask"]; text: string }[] = [
  { id: "enqueue", text: "waits for the run" },
  { id: "reject", text: "is refused" },
  { id: "interrupt", text: "ends the run, and keeps its messages" },
  { id: "rollback", text: "ends the run, and removes its messages" },
];

/** ContextTab edits the agent's input besides the messages. */
export function ContextTab({ setup, change }: { setup: Setup; change: (part: Partial<Setup>) => void }) {
  const id = useId();
  const { context, props } = setup;
  const set = (at: number, part: Partial<Setup["context"][number]>) => change({ context: context.map((c, i) => (i === at ? { ...c, ...part } : c)) });
  const bad = props.trim() !== "" && !isObject(parsed(props));
  return (
    <div className="stack">
      {context.map((c, at) => (
        <fieldset key={at} className="fieldset stack">
          <legend>Context {at + 1}</legend>
          <div className="row">
            <input className="input" aria-label={`Description of context ${at + 1}`} placeholder="Description" value={c.description} onChange={(e) => set(at, { description: e.target.value })} />
            <button type="button" className="button plain icon small" aria-label={`Remove context ${at + 1}`} onClick={() => change({ context: context.filter((_, i) => i !== at) })}>
              <icons.Trash />
            </button>
          </div>
          <textarea className="input" aria-label={`Value of context ${at + 1}`} placeholder="Value" rows={2} value={c.value} onChange={(e) => set(at, { value: e.target.value })} />
        </fieldset>
      ))}
      <div>
        <button type="button" className="button small" onClick={() => change({ context: [...context, { description: "", value: "" }] })}>
          <icons.Plus /> Add context
        </button>
      </div>
      <div className="field">
        <span className="label">forwardedProps, as JSON</span>
        <CodeEditor label="forwardedProps, as JSON" value={props} onChange={(next) => change({ props: next })} height={72} />
        {bad && <span className="wrong">Want a JSON object.</span>}
      </div>
      <div className="field">
        <label className="label" htmlFor={id}>
          While a run of the thread is open, the next
        </label>
        <select id={id} className="input" value={setup.multitask} onChange={(e) => change({ multitask: e.target.value as Setup["multitask"] })}>
          {multitasks.map((m) => (
            <option key={m.id} value={m.id}>
              {m.text}
            </option>
          ))}
        </select>
      </div>
    </div>
  );
}
