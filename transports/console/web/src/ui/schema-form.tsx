import { useId, useState, type ReactNode } from "react";
import { isDigits } from "../api/json";
import { CodeEditor } from "./code-editor";
import * as icons from "./icons";
import { parsed } from "./json";
import { initial, plain, shape, variantOf, type Problems, type Schema } from "./schema";

interface Props {
  schema: Schema;
  value: unknown;
  onChange: (value: unknown) => void;
  problems: Problems;
  root?: Schema; // the document for $ref
  name?: string;
  path?: string;
  required?: boolean;
}

type Part = Required<Omit<Props, "value" | "name">> & { value: unknown; label: string; named: boolean };

/** SchemaForm edits a value in the fields of its schema. */
export function SchemaForm({ schema, value, onChange, problems, root = schema, name, path = "", required = false }: Props) {
  const s = plain(schema, root);
  const part: Part = { schema: s, value, onChange, problems, root, path, required, label: s.title ?? name ?? "Value", named: name !== undefined };
  switch (shape(s)) {
    case "const":
      return null; // nothing to edit
    case "object":
      return <Members {...part} />;
    case "list":
      return <List {...part} />;
    case "choices":
      return <Choices {...part} />;
    case "variants":
      return <Variants {...part} />;
    case "boolean":
      return <Check {...part} />;
    default:
      return <Field {...part} />;
  }
}

function Members(part: Part) {
  const { schema, value, onChange, problems, root, path, required } = part;
  if (value === undefined && !required) return <Absent {...part} />;
  const v = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  const fields = Object.entries(schema.properties ?? {}).map(([name, member]) => (
    <SchemaForm
      key={name} name={name} path={`${path}/${name}`} schema={member} root={root} required={schema.required?.includes(name)} value={v[name]} problems={problems}
      onChange={(next) => {
        const { [name]: _, ...others } = v;
        onChange(next === undefined ? others : { ...others, [name]: next });
      }}
    />
  ));
  if (!part.named) return <div className="stack">{fields}</div>;
  return <Group {...part}>{fields}</Group>;
}

// An optional part that is absent.
function Absent({ schema, onChange, root, label }: Part) {
  return (
    <div>
      <button type="button" className="button small" onClick={() => onChange(initial(schema, root))}>
        <icons.Plus /> {label} <span className="muted">(optional)</span>
      </button>
    </div>
  );
}

function Group({ schema, label, required, onChange, problems, path, children }: Part & { children: ReactNode }) {
  return (
    <fieldset className="fieldset stack">
      <legend>{label}</legend>
      {schema.description && <span className="hint">{schema.description}</span>}
      {children}
      {problems[path] && <span className="wrong">{problems[path]}</span>}
      {!required && (
        <div>
          <button type="button" className="button plain small" onClick={() => onChange(undefined)}>
            Leave out {label}
          </button>
        </div>
      )}
    </fieldset>
  );
}

function List(part: Part) {
  const { schema, value, onChange, problems, root, path, required, label } = part;
  if (value === undefined && !required) return <Absent {...part} />;
  const items = Array.isArray(value) ? value : [];
  const item = schema.items as Schema;
  return (
    <Group {...part}>
      {items.map((each: unknown, i) => (
        <div key={`${items.length}/${i}`} className="row list-item">
          <div className="grow">
            <SchemaForm
              name={`${label} ${i + 1}`} schema={item} root={root} path={`${path}/${i}`} required value={each} problems={problems}
              onChange={(next) => onChange(items.map((old: unknown, at) => (at === i ? next : old)))}
            />
          </div>
          <button
            type="button" className="button plain icon small" aria-label={`Remove ${label} ${i + 1}`}
            onClick={() => onChange(items.filter((_, at) => at !== i))}
          >
            <icons.Trash />
          </button>
        </div>
      ))}
      {items.length < (schema.maxItems ?? Infinity) && (
        <div>
          <button type="button" className="button small" aria-label={`Add to ${label}`} onClick={() => onChange([...items, initial(item, root)])}>
            <icons.Plus /> Add
          </button>
        </div>
      )}
    </Group>
  );
}

// Several values of an enum.
function Choices(part: Part) {
  const { schema, value, onChange } = part;
  const chosen = Array.isArray(value) ? (value as unknown[]) : [];
  const all = (schema.items as Schema).enum ?? [];
  return (
    <Group {...part} required>
      {all.map((choice, i) => (
        <label key={i} className="check">
          <input
            type="checkbox" checked={chosen.includes(choice)}
            onChange={(e) => onChange(all.filter((c) => (c === choice ? e.target.checked : chosen.includes(c))))}
          />
          <span>{String(choice)}</span>
        </label>
      ))}
    </Group>
  );
}

// One of several schemas.
function Variants(part: Part) {
  const { schema, value, onChange, problems, root, path, required, label } = part;
  const id = useId();
  const all = schema.oneOf ?? [];
  const [chosen, setChosen] = useState(() => (value === undefined && !required ? -1 : variantOf(schema, value, root)));
  const variant = all[chosen];
  return (
    <fieldset className="fieldset stack">
      <legend>{label}</legend>
      <div className="field">
        <label className="label" htmlFor={id}>
          Kind
        </label>
        <select
          id={id} className="input" value={chosen}
          onChange={(e) => {
            const next = Number(e.target.value);
            setChosen(next);
            onChange(all[next] && initial(all[next], root));
          }}
        >
          {!required && <option value={-1}>–</option>}
          {all.map((s, i) => (
            <option key={i} value={i}>
              {s.title ?? constants(s, root) ?? [s.type].flat().join(" or ") ?? `Kind ${i + 1}`}
            </option>
          ))}
        </select>
        {schema.description && <span className="hint">{schema.description}</span>}
      </div>
      {variant && (
        <SchemaForm
          key={chosen} schema={{ ...variant, title: undefined }} root={root} path={path} required value={value} problems={problems} onChange={onChange}
          {...(shape(plain(variant, root)) === "object" ? {} : { name: "Value" })}
        />
      )}
    </fieldset>
  );
}

// The constants that distinguish a variant.
function constants(s: Schema, root: Schema): string | undefined {
  const found = Object.values(s.properties ?? {}).map((m) => plain(m, root).const).filter((c) => c !== undefined);
  return found.length > 0 ? found.join(", ") : undefined;
}

function Check({ schema, value, onChange, label }: Part) {
  return (
    <label className="check">
      <input type="checkbox" checked={value === true} onChange={(e) => onChange(e.target.checked)} />
      <span>
        {label}
        {schema.description && <span className="muted"> — {schema.description}</span>}
      </span>
    </label>
  );
}

function Field(part: Part) {
  const { schema, path, problems, required, label } = part;
  const id = useId();
  const problem = problems[path];
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {label}
        {!required && <span className="muted"> (optional)</span>}
      </label>
      <Control {...part} id={id} />
      <span id={`${id}-about`} className={problem ? "wrong" : "hint"}>
        {problem ?? schema.description ?? bounds(schema)}
      </span>
    </div>
  );
}

// The range of a number, if the schema has no description.
function bounds({ minimum: least, maximum: most }: Schema): string {
  if (least !== undefined && most !== undefined) return `${least} to ${most}`;
  if (least !== undefined) return `At least ${least}`;
  return most === undefined ? "" : `At most ${most}`;
}

function Control({ schema, value, onChange, problems, path, id, label }: Part & { id: string }) {
  const shared = { id, className: "input", "aria-describedby": `${id}-about`, "aria-invalid": Boolean(problems[path]) };
  switch (shape(schema)) {
    case "choice": {
      const choices = schema.enum ?? [];
      return (
        <select {...shared} value={choices.indexOf(value)} onChange={(e) => onChange(choices[Number(e.target.value)])}>
          <option value={-1}>–</option>
          {choices.map((choice, i) => (
            <option key={i} value={i}>
              {schema.names?.[i] ?? String(choice)}
            </option>
          ))}
        </select>
      );
    }
    case "number":
      return (
        <input
          {...shared} type="number" step={schema.multipleOf ?? ([schema.type].flat().includes("integer") ? 1 : "any")} min={schema.minimum} max={schema.maximum}
          value={isDigits(value) ? value.rawJSON : typeof value === "number" && !Number.isNaN(value) ? value : ""}
          onChange={(e) => onChange(typed(e.target))}
        />
      );
    case "string":
      return <Text schema={schema} value={typeof value === "string" ? value : ""} set={(next) => onChange(next === "" ? undefined : next)} shared={shared} />;
    default:
      return <JSONField label={label} value={value} onChange={onChange} />;
  }
}

// A number as it was typed, so that many digits are not rounded.
function typed({ value, valueAsNumber }: HTMLInputElement): unknown {
  const json = parsed(value);
  return value === "" ? undefined : isDigits(json) ? json : valueAsNumber;
}

const types: Record<string, string> = { date: "date", time: "time", email: "email", uri: "url", url: "url" };

function Text({ schema, value, set, shared }: { schema: Schema; value: string; set: (next: string) => void; shared: object }) {
  if (schema.format === "date-time") {
    return <input {...shared} type="datetime-local" value={local(value)} onChange={(e) => set(e.target.value && new Date(e.target.value).toISOString())} />;
  }
  const long = (schema.maxLength ?? 0) > 200 || value.length > 80 || value.includes("\n");
  if (long) return <textarea {...shared} value={value} onChange={(e) => set(e.target.value)} />;
  return <input {...shared} type={types[schema.format ?? ""] ?? "text"} value={value} onChange={(e) => set(e.target.value)} />;
}

// A time for a datetime-local field: local, without a zone.
function local(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
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
      {wrong && <span className="wrong">Want JSON.</span>}
    </>
  );
}
