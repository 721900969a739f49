import { diffLines, diffWordsWithSpace, type Change } from "diff";
import { memo, useMemo } from "react";
import { number } from "../../ui/format";

const long = 20_000; // characters beyond which lines are compared instead of words
const most = 400_000; // characters that are compared

/** Words shows what differs between two texts. */
export const Words = memo(function Words({ one, other, label }: { one: string; other: string; label: string }) {
  const parts = useMemo(() => differences(one, other), [one, other]);
  const rest = Math.max(one.length, other.length) - most;
  return (
    <div className="code wraps words" tabIndex={0} role="group" aria-label={label}>
      {parts.map((p, i) =>
        p.added ? <ins key={i}>{p.value}</ins> : p.removed ? <del key={i}>{p.value}</del> : <span key={i}>{p.value}</span>,
      )}
      {parts.length === 0 && <span className="muted">empty</span>}
      {rest > 0 && <span className="muted"> … {number(rest)} more characters are not compared</span>}
    </div>
  );
});

function differences(one: string, other: string): Change[] {
  const [a, b] = [one.slice(0, most), other.slice(0, most)];
  const whole: Change[] = [a && { value: a, added: false, removed: true, count: 1 }, b && { value: b, added: true, removed: false, count: 1 }].filter((c) => c !== "");
  if (a === b) return a ? [{ value: a, added: false, removed: false, count: 1 }] : [];
  const limit = { timeout: 500 };
  return (a.length + b.length > long ? diffLines(a, b, limit) : diffWordsWithSpace(a, b, limit)) ?? whole; // undefined when it takes longer
}
