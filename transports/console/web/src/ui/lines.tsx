import { useState } from "react";
import { CodeEditor } from "./code-editor";
import { number } from "./format";
import { JsonTree } from "./json";
import { short } from "./short";

const most = 1_000_000; // characters that are shown with line numbers

/** Json shows a value as a tree, or as text with line numbers. */
export function Json({ value, label, depth }: { value: unknown; label: string; depth?: number }) {
  const [lines, setLines] = useState(false);
  return (
    <div className="stack">
      <div className="row" role="group" aria-label={`How to show ${label}`}>
        <button type="button" className="chip" aria-pressed={!lines} onClick={() => setLines(false)}>
          Tree
        </button>
        <button type="button" className="chip" aria-pressed={lines} onClick={() => setLines(true)}>
          Lines
        </button>
      </div>
      {lines ? <Lines value={value} label={label} /> : <JsonTree value={value} depth={depth} />}
    </div>
  );
}

function Lines({ value, label }: { value: unknown; label: string }) {
  if (short(value, most).length > most) return <p className="muted">It is longer than {number(most)} characters: copy it, or look at its tree.</p>;
  return <CodeEditor label={label} value={JSON.stringify(value, null, 2)} />;
}
