import { useId, useState } from "react";
import { CodeEditor } from "./code-editor";
import { parsed } from "./json";
import { shape, type Schema } from "./schema";

interface Props {
  schema: Schema;
  value: unknown;
  onChange: (value: unknown) => void;
  problems: Record<string, string>; // by path, as wrong() tells them
  name?: string;
  path?: string;
  required?: boolean;
}

/** SchemaForm asks for a value in the fields that its schema says. */
export function SchemaForm(props: Props) {
  const { schema, value, onChange, problems, path = "" } = props;
  if (shape(schema) !== "object") return <Field {...props} />;
  const v = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  const fields = Object.entries(schema.properties ?? {}).map(([name, member]) => (
    <SchemaForm
      key={name}
      name={name}
      path={`${path}/${name}`}
      schema={member}
      required={schema.required?.includes(name)}
      value={v[name]}
      problems={problems}
      onChange={(next) => {
        const { [name]: _, ...others } = v;
        onChange(next === undefined ? others : { ...others, [name]: next });
      }}
    />
  ));
  if (path === "") return <div className="stack">{fields}</div>;
  return (
    <fieldset className="fieldset stack">
      <legend>{schema.title ?? props.name}</legend>
      {fields}
    </fieldset>
  );
}

function Field(props: Props) {
  const { schema, path = "", problems, required } = props;
  const id = useId();
  const problem = problems[path];
  const label = schema.title ?? props.name ?? "Value";
  if (shape(schema) === "boolean") {
    return (
      <label className="check">
        <input type="checkbox" checked={props.value === true} onChange={(e) => props.onChange(e.target.checked)} />
        <span>
          {label}
          {schema.description && <span className="muted"> — {schema.description}</span>}
        </span>
      </label>
    );
  }
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {label}
        {!required && <span className="muted"> (optional)</span>}
      </label>
      <Control {...props} id={id} label={label} describedBy={`${id}-about`} />
      <span id={`${id}-about`} className={problem ? "wrong" : "hint"}>
        {problem ?? schema.description}
      </span>
    </div>
  );
}

function Control({ schema, value, onChange, problems, path = "", id, label, describedBy }: Props & { id: string; label: string; describedBy: string }) {
  const shared = { id, className: "input", "aria-describedby": describedBy, "aria-invalid": Boolean(problems[path]) };
  switch (shape(schema)) {
    case "choice": {
      const choices = schema.enum ?? [];
      return (
        <select {...shared} value={choices.indexOf(value)} onChange={(e) => onChange(choices[Number(e.target.value)])}>
          <option value={-1}>–</option>
          {choices.map((choice, i) => (
            <option key={i} value={i}>
              {String(choice)}
            </option>
          ))}
        </select>
      );
    }
    case "number":
      return (
        <input
          {...shared} type="number" step="any" min={schema.minimum} max={schema.maximum}
          value={typeof value === "number" && !Number.isNaN(value) ? value : ""}
          onChange={(e) => onChange(e.target.value === "" ? undefined : e.target.valueAsNumber)}
        />
      );
    case "string": {
      const text = typeof value === "string" ? value : "";
      const set = (next: string) => onChange(next === "" ? undefined : next);
      const long = (schema.maxLength ?? 0) > 200 || text.length > 80 || text.includes("\n");
      if (long) return <textarea {...shared} value={text} onChange={(e) => set(e.target.value)} />;
      return <input {...shared} type="text" value={text} onChange={(e) => set(e.target.value)} />;
    }
    default:
      return <JSONField label={label} value={value} onChange={onChange} />;
  }
}

function JSONField({ label, value, onChange }: { label: string; value: unknown; onChange: (value: unknown) => void }) {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const wrong = text.trim() !== "" && parsed(text) === undefined;
  return (
    <>
      <CodeEditor
        label={label}
        value={text}
        height={64}
        onChange={(next) => {
          setText(next);
          onChange(parsed(next));
        }}
      />
      {wrong && <span className="wrong">This is not JSON.</span>}
    </>
  );
}
