import { memo, useState } from "react";
import * as icons from "./icons";

const many = 100; // members that are shown before somebody asks for more

/** JsonTree shows a JSON value as a tree that can be folded. Parts that are not those of before are marked. */
export const JsonTree = memo(function JsonTree({ value, before, depth = 2 }: { value: unknown; before?: unknown; depth?: number }) {
  return (
    <div className="tree">
      <Node value={value} before={before} marks={before !== undefined} depth={depth} />
    </div>
  );
});

function Node({ name, value, before, marks, depth }: { name?: string; value: unknown; before: unknown; marks: boolean; depth: number }) {
  const nested = typeof value === "object" && value !== null;
  const [open, setOpen] = useState(depth > 0);
  const [shown, setShown] = useState(many);
  const changed = marks && value !== before;
  const label = name !== undefined && <span className="key">{name}: </span>;
  if (!nested) {
    return (
      <span className={changed ? "changed" : undefined}>
        {label}
        <Leaf value={value} />
      </span>
    );
  }
  const list = Array.isArray(value);
  const members = Object.entries(value);
  const size = list ? `[${members.length}]` : `{${members.length}}`;
  if (members.length === 0) {
    return (
      <span>
        {label}
        {list ? "[]" : "{}"}
      </span>
    );
  }
  const old = typeof before === "object" && before !== null ? (before as Record<string, unknown>) : {};
  return (
    <div>
      <button
        type="button"
        className="toggle"
        aria-expanded={open}
        aria-label={`${name ?? (list ? "list" : "object")}, ${members.length} ${members.length === 1 ? "member" : "members"}`}
        onClick={() => setOpen(!open)}
      >
        {open ? <icons.Down /> : <icons.Right />}
      </button>
      {label}
      <span className="null">{size}</span>
      {open && (
        <ul>
          {members.slice(0, shown).map(([key, member]) => (
            <li key={key}>
              <Node name={key} value={member} before={old[key]} marks={changed} depth={depth - 1} />
            </li>
          ))}
          {members.length > shown && (
            <li>
              <button type="button" className="button plain small" onClick={() => setShown(shown * 10)}>
                {members.length - shown} more
              </button>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

function Leaf({ value }: { value: unknown }) {
  if (value === null || value === undefined) return <span className="null">null</span>;
  if (typeof value === "string") return <span className="string">{JSON.stringify(value)}</span>;
  return <span className={typeof value}>{String(value)}</span>;
}

/** parsed is a text as JSON, undefined where it is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
