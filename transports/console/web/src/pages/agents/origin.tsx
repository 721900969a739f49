import type { Offered, Origin } from "../../api/types";
import { Ago } from "../../ui/basics";

const words: Record<Origin["kind"], string> = {
  "built-in": "Built in", yaml: "Declared in YAML", mcp: "MCP server", remote: "Remote agent", process: "Process", program: "Program",
};

/** ownFirst returns plugins with the built-in ones last, otherwise in their order. */
export function ownFirst<T extends { origin?: Origin }>(list: T[]): T[] {
  const builtIn = (p: T) => Number(p.origin?.kind === "built-in");
  return list.toSorted((a, b) => builtIn(a) - builtIn(b));
}

/** Source is the origin of a plugin. */
export function Source({ origin }: { origin: Origin | undefined }) {
  if (!origin) return null;
  const where = [origin.server, origin.url, origin.file && `${origin.file}${origin.line ? `:${origin.line}` : ""}`].filter(Boolean);
  return (
    <>
      <span className="badge">{words[origin.kind]}</span>
      {where.length > 0 && <span className="mono muted wrap">{where.join(" · ")}</span>}
    </>
  );
}

/** State is the last known health of a plugin's server or program. */
export function State({ health }: { health: Offered["health"] | undefined }) {
  if (!health) return null;
  return (
    <>
      <span className="badge" data-tone={health.ok ? "good" : "bad"}>
        {health.ok ? "Healthy" : "Unreachable"}
      </span>
      {health.since && (
        <span className="muted">
          <Ago at={health.since} />
        </span>
      )}
      {health.detail && <span className="muted wrap">{health.detail}</span>}
    </>
  );
}
