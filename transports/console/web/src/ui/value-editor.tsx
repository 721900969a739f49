import { useState } from "react";
import { CodeEditor } from "./code-editor";
import { parsed } from "./json";
import { plain, shape, type Problems, type Schema } from "./schema";
import { SchemaForm } from "./schema-form";
import { Tabs } from "./tabs";

interface Props {
  label: string;
  schema?: Schema; // without one there is no form
  value: unknown; // undefined: what was written is not JSON
  onChange: (value: unknown) => void;
  problems: Problems;
}

const tabs = [
  { id: "form", name: "Form" },
  { id: "json", name: "JSON" },
];

const composed = new Set(["object", "list", "variants", "choices"]); // a single field needs no JSON

/** ValueEditor edits a value as a form of its schema, or as JSON. */
export function ValueEditor({ label, schema, value, onChange, problems }: Props) {
  const kind = schema === undefined ? "json" : shape(plain(schema, schema));
  const form = schema !== undefined && kind !== "json";
  const [tab, setTab] = useState(form ? "form" : "json");
  const [text, setText] = useState(() => JSON.stringify(value, null, 2) ?? "");
  const choose = (next: string) => {
    if (next === "json" && tab === "form") setText(JSON.stringify(value, null, 2) ?? "");
    setTab(next);
  };
  const write = (next: string) => {
    setText(next);
    onChange(parsed(next));
  };
  const json = (
    <>
      <CodeEditor label={label} value={text} onChange={write} height={96} />
      {value === undefined && <p className="wrong">This is not JSON.</p>}
      {value !== undefined && Object.entries(problems).map(([path, problem]) => (
        <p key={path} className="wrong">
          {path && <span className="mono">{path}: </span>}
          {problem}
        </p>
      ))}
    </>
  );
  if (!form) return json;
  const fields = <SchemaForm schema={schema} value={value} onChange={onChange} problems={problems} required />;
  if (!composed.has(kind)) return fields;
  return (
    <Tabs label="Form or JSON" tabs={tabs} chosen={tab} choose={choose}>
      {tab === "json" ? json : fields}
    </Tabs>
  );
}
