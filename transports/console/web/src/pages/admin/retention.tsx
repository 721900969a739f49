import { useRetention } from "../../api/admin";
import { Failure, Loading, Panel } from "../../ui/basics";
import { bytes, number } from "../../ui/format";
import { Facts } from "./facts";

/** Retention is the project's retention, and the data that has expired now. */
export function Retention() {
  const { data, error, refetch } = useRetention();
  if (error && !data) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading />;
  const { days, due } = data;
  const kept = (n: number | null) => (n === null || n === 0 ? "for ever" : `${number(n)} days`);
  return (
    <div className="admin-panels">
      <Panel title="Kept for">
        <Facts facts={[["Runs", kept(days.runs)], ["Events", kept(days.events)], ["Attachments", kept(days.attachments)], ["Audit", kept(days.audit)]]} />
      </Panel>
      <Panel title="Expired now">
        <Facts
          facts={[
            ["Runs", number(due.runs)],
            ["Runs without their events", number(due.stripped)],
            ["Events", number(due.events)],
            ["Their size", bytes(due.bytes)],
            ["Attachments", number(due.attachments)],
            ["Audit", number(due.audit)],
          ]}
        />
        {!due.whole && <p className="muted">The count is incomplete.</p>}
      </Panel>
    </div>
  );
}
