import type { ReactNode } from "react";

/** Facts is a list of names and values. */
export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className="admin-facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="num wrap">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
