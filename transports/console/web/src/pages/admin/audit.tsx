import { useEffect } from "react";
import { Link, useLocation } from "wouter";
import { useSearch } from "../../app/address";
import { useAudit, type AuditFilter } from "../../api/admin";
import { runPath } from "../../app/paths";
import { Clock, Empty, Failure, Loading, Panel } from "../../ui/basics";
import { brief } from "../../ui/format";
import { Typed } from "../../ui/typed";

const actions = ["start", "append", "answer", "cancel", "event", "update", "delete", "create_key", "revoke_key"];

const texts: { name: "actor" | "user" | "run"; label: string }[] = [
  { name: "actor", label: "Actor" },
  { name: "user", label: "Owner" },
  { name: "run", label: "Run" },
];

/** Audit is the audit log, newest first. Its filters are in the address. */
export function Audit() {
  const [filter, set] = useFilter();
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useAudit(asked(filter));
  const rows = data?.pages.flatMap((p) => p.items) ?? [];
  useOnward(rows.length === 0 && hasNextPage && !isFetchingNextPage, fetchNextPage);
  return (
    <div className="stack">
      <div className="row wraps admin-filters">
        {texts.map(({ name, label }) => (
          <Typed key={name} label={label} value={filter[name]} set={(value) => set(name, value)} />
        ))}
        <select className="input" aria-label="Action" value={filter.action} onChange={(e) => set("action", e.target.value)}>
          <option value="">all actions</option>
          {actions.map((a) => (
            <option key={a} value={a}>
              {a.replace("_", " ")}
            </option>
          ))}
        </select>
        {(["since", "until"] as const).map((name) => (
          <label key={name} className="row">
            <span className="muted">{name}</span>
            <input className="input" type="datetime-local" value={filter[name]} onChange={(e) => set(name, e.target.value)} />
          </label>
        ))}
      </div>
      {error && !data && <Failure error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && rows.length === 0 && !hasNextPage && (
        <Empty title="No entries">{Object.values(filter).some(Boolean) ? "No matches. Remove a filter." : ""}</Empty>
      )}
      {rows.length > 0 && (
        <Panel flush>
          <div className="scroll-x" tabIndex={0} role="region" aria-label="Audit">
            <table className="table">
              <thead>
                <tr>
                  {["Time", "Actor", "Action", "Owner", "Thread", "Run", "Subject", "Credential", "Address"].map((name) => (
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
                    <td className="nowrap">{r.action.replace("_", " ")}</td>
                    <td>{r.userId}</td>
                    <td className="mono">{brief(r.threadId)}</td>
                    <td className="mono">{r.runId && (r.action === "delete" ? brief(r.runId) : <Link href={runPath({ id: r.runId, user: r.userId })}>{brief(r.runId)}</Link>)}</td>
                    <td className="mono">{r.subject}</td>
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

const none: AuditFilter = { actor: "", action: "", user: "", run: "", since: "", until: "" };

function useFilter(): [AuditFilter, (name: keyof AuditFilter, value: string) => void] {
  const search = useSearch();
  const query = new URLSearchParams(search);
  const [path, go] = useLocation();
  const filter = Object.fromEntries(Object.keys(none).map((name) => [name, query.get(name) ?? ""])) as unknown as AuditFilter;
  const set = (name: keyof AuditFilter, value: string) => {
    if (value) query.set(name, value);
    else query.delete(name);
    go(`${path}?${query}`, { replace: true });
  };
  return [filter, set];
}

// Converts the filters to the API's.
function asked(filter: AuditFilter): AuditFilter {
  const at = (text: string) => (text ? new Date(text).toISOString() : "");
  const [actor, user, run] = [filter.actor.trim(), filter.user.trim(), filter.run.trim()];
  return { ...filter, actor, user, run, since: at(filter.since), until: at(filter.until) };
}

// useOnward reads the next page while filtered pages are empty.
function useOnward(want: boolean, read: () => unknown) {
  useEffect(() => {
    if (want) void read();
  }, [want, read]);
}
