import { useState } from "react";
import { Link } from "wouter";
import { useAudit } from "../../api/admin";
import { runPath } from "../../app/search";
import { Clock, Empty, Failure, Loading, Panel } from "../../ui/basics";
import { brief } from "../../ui/format";

const actions = ["start", "append", "answer", "cancel", "update", "delete"];

/** Audit is who has done what, latest first. */
export function Audit() {
  const [actor, setActor] = useState("");
  const [action, setAction] = useState("");
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useAudit(actor.trim(), action);
  const rows = data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <div className="stack">
      <div className="row wraps admin-filters">
        <input className="input" type="search" aria-label="Who" placeholder="Who" value={actor} onChange={(e) => setActor(e.target.value)} />
        <select className="input" aria-label="What" value={action} onChange={(e) => setAction(e.target.value)}>
          <option value="">everything</option>
          {actions.map((a) => (
            <option key={a}>{a}</option>
          ))}
        </select>
      </div>
      {error && !data && <Failure error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && rows.length === 0 && <Empty title="Nothing was done" />}
      {rows.length > 0 && (
        <Panel flush>
          <div className="scroll-x" tabIndex={0} role="region" aria-label="Audit">
            <table className="table">
              <thead>
                <tr>
                  {["When", "Who", "What", "Whose", "Thread", "Run", "Key", "From"].map((name) => (
                    <th key={name}>{name}</th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((r, i) => (
                  <tr key={i}>
                    <td>
                      <Clock at={r.at} />
                    </td>
                    <td>{r.actor}</td>
                    <td>{r.action}</td>
                    <td>{r.userId}</td>
                    <td className="mono">{brief(r.threadId)}</td>
                    <td className="mono">{r.runId && (r.action === "delete" ? brief(r.runId) : <Link href={runPath({ id: r.runId, user: r.userId })}>{brief(r.runId)}</Link>)}</td>
                    <td className="mono">{r.credential}</td>
                    <td className="mono">{r.address}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Panel>
      )}
      {hasNextPage && (
        <div>
          <button type="button" className="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Earlier
          </button>
        </div>
      )}
    </div>
  );
}
