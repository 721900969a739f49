import type { ReactNode } from "react";
import { Boundary } from "../app/boundary";
import * as icons from "./icons";
import { JsonTree } from "./json";

/** Drawn is a part of a page. If it fails to render, its value is shown as JSON, and the rest of the page stays. */
export function Drawn({ value, at, children }: { value?: unknown; at?: unknown; children: ReactNode }) {
  return (
    <Boundary at={at} failed={(_, again) => <Undrawn value={value} again={again} />}>
      {children}
    </Boundary>
  );
}

/** Undrawn shows a value that cannot be rendered, as JSON. */
export function Undrawn({ value, again }: { value?: unknown; again?: () => void }) {
  return (
    <div className="undrawn stack">
      <p className="notice" data-tone="wait">
        <icons.Warn />
        <span className="grow wrap">
          The console cannot draw this{value === undefined ? "" : "; this is the raw data"}.
        </span>
        {again && (
          <button type="button" className="button small" onClick={again}>
            Try again
          </button>
        )}
      </p>
      {value !== undefined && <JsonTree value={value} depth={3} />}
    </div>
  );
}
