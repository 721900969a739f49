import { Link } from "wouter";
import type { Stats } from "../../api/types";
import { useMoney } from "../../app/context";
import { Ago, Clock, Panel } from "../../ui/basics";
import { brief, compact, duration, number } from "../../ui/format";
import { percent } from "./figures";

/** Agents is the statistics of each agent. */
export function Agents({ stats: { agents } }: { stats: Stats }) {
  const money = useMoney();
  return (
    <Panel title="By agent" flush className="wide">
      {agents.length === 0 ? (
        <p className="quiet muted">No runs.</p>
      ) : (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="By agent">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Agent</th>
                <th scope="col" className="right">Runs</th>
                <th scope="col" className="right">Failed</th>
                <th scope="col" className="right">Median</th>
                <th scope="col" className="right">95 %</th>
                <th scope="col" className="right">Tokens in</th>
                <th scope="col" className="right">Tokens out</th>
                <th scope="col" className="right">Cost</th>
              </tr>
            </thead>
            <tbody>
              {agents.map((a) => (
                <tr key={a.agent}>
                  <td>
                    <Link href={`/runs?agent=${encodeURIComponent(a.agent)}`}>{a.agent}</Link>
                  </td>
                  <td className="right num">{number(a.runs)}</td>
                  <td className={`right num ${a.failed > 0 ? "bad" : "muted"}`}>{a.failed > 0 ? `${number(a.failed)} · ${percent(a.failed / a.runs)}` : "–"}</td>
                  <td className="right num">{a.durationMs ? duration(a.durationMs.p50) : "–"}</td>
                  <td className="right num">{a.durationMs ? duration(a.durationMs.p95) : "–"}</td>
                  <td className="right num">{a.inputTokens ? compact(a.inputTokens) : "–"}</td>
                  <td className="right num">{a.outputTokens ? compact(a.outputTokens) : "–"}</td>
                  <td className="right num">{a.cost === null ? "–" : money(a.cost)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

/** Failures are the error codes of failed runs. */
export function Failures({ stats: { failures } }: { stats: Stats }) {
  const most = Math.max(1, ...failures.map((f) => f.count));
  return (
    <Panel title="Failures by code" flush>
      {failures.length === 0 && <p className="quiet muted">No failures.</p>}
      <ul className="meters">
        {failures.map((f) => (
          <li key={f.code}>
            <code className="grow clip">{f.code}</code>
            <span className="meter" aria-hidden="true">
              <span style={{ width: `${(f.count / most) * 100}%` }} />
            </span>
            <span className="num">{number(f.count)}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

const most = 6;

/** Instances are the processes that serve the database, or have served it recently. */
export function Instances({ stats: { instances } }: { stats: Stats }) {
  const list = instances.toSorted((a, b) => Number(b.serving) - Number(a.serving));
  return (
    <Panel title="Instances" flush>
      <ul className="brief-list">
        {list.slice(0, most).map((i) => (
          <li key={i.id}>
            <span className="badge" data-tone={i.serving ? "good" : i.ended === null ? "wait" : "idle"}>
              {i.serving ? "serving" : (i.ended ?? "silent")}
            </span>
            <span className="grow two" title={i.id}>
              <span className="clip mono">{i.address ?? brief(i.id)}</span>
              <span className="muted clip">{i.version}</span>
            </span>
            <span className="muted nowrap">
              {i.serving ? "up since " : "seen "}
              {i.serving ? <Clock at={i.startedAt} /> : <Ago at={i.heartbeatAt} />}
            </span>
          </li>
        ))}
        {list.length > most && <li className="muted">and {list.length - most} more</li>}
      </ul>
    </Panel>
  );
}
