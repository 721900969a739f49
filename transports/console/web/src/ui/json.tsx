import { memo, useState } from "react";
import { isDigits, parse } from "../api/json";
import { number } from "./format";
import * as icons from "./icons";

const many = 100; // members that are shown at first
const few = 25; // members of objects that may be open at first; larger ones are collapsed

/** JsonTree shows a JSON value as a collapsible tree, and marks the parts that differ from before. */
export const JsonTree = memo(function JsonTree({ value, before, depth = 2 }: { value: unknown; before?: unknown; depth?: number }) {
  return (
    <div className="tree">
      <Node value={value} before={before} marks={before !== undefined} depth={depth} />
    </div>
  );
});

function Node({ name, value, before, marks, depth }: { name?: string; value: unknown; before: unknown; marks: boolean; depth: number }) {
  const nested = typeof value === "object" && value !== null && !isDigits(value);
  const [open, setOpen] = useState(depth > 0);
  const [shown, setShown] = useState(many);
  const changed = marks && value !== before && !(isDigits(value) && isDigits(before) && value.rawJSON === before.rawJSON);
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
  const names = list ? null : Object.keys(value);
  const count = names?.length ?? (value as unknown[]).length;
  const size = list ? `[${count}]` : `{${count}}`;
  if (count === 0) {
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
        aria-label={`${name ?? (list ? "list" : "object")}, ${count} ${count === 1 ? "member" : "members"}`}
        onClick={() => setOpen(!open)}
      >
        {open ? <icons.Down /> : <icons.Right />}
      </button>
      {label}
      <span className="null">{size}</span>
      {open && (
        <ul>
          {(names?.slice(0, shown) ?? Array.from({ length: Math.min(shown, count) }, (_, i) => String(i))).map((key) => (
            <li key={key}>
              <Node name={key} value={(value as Record<string, unknown>)[key]} before={old[key]} marks={changed} depth={count > few ? 0 : depth - 1} />
            </li>
          ))}
          {count > shown && (
            <li>
              <button type="button" className="button plain small" onClick={() => setShown(shown * 10)}>
                {number(count - shown)} more
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
  if (typeof value === "string") return <Text value={value} />;
  if (isDigits(value)) return <span className="number">{value.rawJSON}</span>;
  return <span className={typeof value}>{String(value)}</span>;
}

const much = 2_000; // characters of a text that are shown at first

function Text({ value }: { value: string }) {
  const [shown, setShown] = useState(much);
  const rest = value.length - shown;
  return (
    <>
      <span className="string">{JSON.stringify(rest > 0 ? value.slice(0, shown) : value)}</span>
      {rest > 0 && (
        <>
          {" "}
          <button type="button" className="button plain small" onClick={() => setShown(shown * 10)}>
            {number(rest)} more characters
          </button>
        </>
      )}
    </>
  );
}

/** parsed parses a text as JSON, undefined if it is not. */
export function parsed(text: string): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}
