import { useId, useState } from "react";
import { CodeEditor } from "../../ui/code-editor";
import { Dialog } from "../../ui/dialog";
import * as icons from "../../ui/icons";
import { parsed } from "../../ui/json";
import { isObject } from "./request";
import type { Mock } from "./setup";

const example: Mock = {
  name: "get_location",
  description: "Returns the location of the user.",
  parameters: { type: "object", properties: { precision: { type: "string", enum: ["city", "street"] } } },
};

/** Declared is a tool that is being edited, and its index. */
export interface Declared {
  tool: Mock;
  at: number;
}

interface Props {
  tools: Mock[];
  change: (tools: Mock[]) => void;
  declare: (declared: Declared) => void;
}

/** ToolsTab edits the front-end tools. A call of one waits until the user has written its result. */
export function ToolsTab({ tools, change, declare }: Props) {
  return (
    <div className="stack">
      <p className="muted">Tools of a front end. When an agent calls one, the run waits until you write its result.</p>
      <ul className="stack">
        {tools.map((tool, at) => (
          <li key={tool.name} className="row mock">
            <icons.Tool />
            <div className="grow">
              <div className="mono clip">{tool.name}</div>
              <div className="muted clip">{tool.description}</div>
            </div>
            <button type="button" className="button plain icon small" aria-label={`Edit ${tool.name}`} onClick={() => declare({ tool, at })}>
              <icons.Edit />
            </button>
            <button type="button" className="button plain icon small" aria-label={`Remove ${tool.name}`} onClick={() => change(tools.filter((_, i) => i !== at))}>
              <icons.Trash />
            </button>
          </li>
        ))}
      </ul>
      <div>
        <button type="button" className="button small" onClick={() => declare({ tool: tools.length === 0 ? example : { ...example, name: "" }, at: tools.length })}>
          <icons.Plus /> Add a tool
        </button>
      </div>
    </div>
  );
}

/** Declaration is the dialog for a tool. */
export function Declaration({ declared: { tool, at }, tools, change, onClose }: { declared: Declared; tools: Mock[]; change: (tools: Mock[]) => void; onClose: () => void }) {
  const [name, setName] = useState(tool.name);
  const [description, setDescription] = useState(tool.description);
  const [schema, setSchema] = useState(() => JSON.stringify(tool.parameters, null, 2));
  const id = useId();
  const parameters = parsed(schema);
  const twice = tools.some((t, i) => i !== at && t.name === name.trim());
  const good = name.trim() !== "" && !twice && isObject(parameters);
  const keep = () => {
    change([...tools.slice(0, at), { name: name.trim(), description, parameters }, ...tools.slice(at + 1)]);
    onClose();
  };
  return (
    <Dialog
      title="Front-end tool" onClose={onClose}
      footer={
        <button type="button" className="button primary" disabled={!good} onClick={keep}>
          Keep it
        </button>
      }
    >
      <div className="stack">
        <div className="field">
          <label className="label" htmlFor={`${id}-name`}>
            Name
          </label>
          <input id={`${id}-name`} className="input mono" autoFocus spellCheck={false} value={name} aria-invalid={twice} onChange={(e) => setName(e.target.value)} />
          {twice && <span className="wrong">A tool with this name exists already.</span>}
        </div>
        <div className="field">
          <label className="label" htmlFor={`${id}-about`}>
            Description
          </label>
          <input id={`${id}-about`} className="input" value={description} onChange={(e) => setDescription(e.target.value)} />
        </div>
        <div className="field">
          <span className="label">Arguments, as a JSON Schema</span>
          <CodeEditor label="Arguments, as a JSON Schema" value={schema} onChange={setSchema} height={150} />
          {!isObject(parameters) && <span className="wrong">The schema must be a JSON object.</span>}
        </div>
      </div>
    </Dialog>
  );
}
