import { useServers, type Server } from "../../api/admin";
import { Ago, Failure, Loading, Panel } from "../../ui/basics";
import { number } from "../../ui/format";
import { Facts } from "./facts";

/** Servers are the living servers of the database, and how they differ. */
export function Servers() {
  const { data, error, refetch } = useServers();
  if (error && !data) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading />;
  return (
    <>
      {data.warnings.length > 0 && (
        <ul role="status">
          {data.warnings.map((w) => (
            <li key={w}>{w}.</li>
          ))}
        </ul>
      )}
      <div className="admin-panels">
        {data.servers.map((s) => (
          <Panel key={s.id} title={s.name ?? s.address ?? s.id}>
            <Facts facts={facts(s)} />
          </Panel>
        ))}
      </div>
    </>
  );
}

function facts(s: Server): Parameters<typeof Facts>[0]["facts"] {
  const names = (list: string[]) => list.join(", ") || "none";
  return [
    ["Address", s.address ?? "none"],
    ["Version", s.version ?? "unknown"],
    ["Role", s.role],
    ["Labels", names(s.labels)],
    ["Runs", s.draining ? `${number(s.running)}; it stops` : `${number(s.running)}, room for ${number(s.free)} more`],
    ["Queue", number(s.queued)],
    ["Agents", names(s.agents)],
    ["Workflows", names(s.workflows)],
    ["Tools", number(s.tools.length)],
    ["Seen", s.seenAt ? <Ago at={s.seenAt} /> : "now"],
  ];
}
