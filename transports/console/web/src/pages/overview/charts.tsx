import { useMemo } from "react";
import type { Stats } from "../../api/types";
import { Panel } from "../../ui/basics";
import { duration, rate } from "../../ui/format";
import { Chart } from "./chart";

/** Charts are the figures of the window over time. */
export function Charts({ stats }: { stats: Stats }) {
  const { buckets, step } = stats;
  const lines = useMemo(() => {
    const minutes = step / 60;
    return {
      times: buckets.map((b) => new Date(b.at).getTime() / 1_000),
      runs: [
        { name: "completed", colour: "--good", values: buckets.map((b) => b.completed / minutes) },
        { name: "cancelled", colour: "--idle", values: buckets.map((b) => b.cancelled / minutes) },
        { name: "failed", colour: "--bad", values: buckets.map((b) => b.failed / minutes) },
      ],
      first: [
        { name: "median", colour: "--run", fill: true, values: buckets.map((b) => b.firstEventMs?.p50 ?? null) },
        { name: "95 %", colour: "--violet", dashed: true, values: buckets.map((b) => b.firstEventMs?.p95 ?? null) },
      ],
      took: [
        { name: "median", colour: "--run", fill: true, values: buckets.map((b) => b.durationMs?.p50 ?? null) },
        { name: "95 %", colour: "--violet", dashed: true, values: buckets.map((b) => b.durationMs?.p95 ?? null) },
      ],
    };
  }, [buckets, step]);
  const { totals } = stats;
  return (
    <div className="charts">
      <Panel title="Ended runs per minute">
        <Chart
          label={`Runs per minute: ${totals.completed} completed, ${totals.failed} failed and ${totals.cancelled} cancelled in this time.`}
          times={lines.times} series={lines.runs} least={1} bars={step} format={rate}
        />
      </Panel>
      <Panel title="Time to the first event">
        <Chart label={`Time to the first event: ${said(totals.firstEventMs)}`} times={lines.times} series={lines.first} least={10} format={duration} />
      </Panel>
      <Panel title="Duration">
        <Chart label={`Duration of runs: ${said(totals.durationMs)}`} times={lines.times} series={lines.took} least={10} format={duration} />
      </Panel>
    </div>
  );
}

const said = (p: Stats["totals"]["durationMs"]) => (p ? `median ${duration(p.p50)}, 95 % within ${duration(p.p95)}.` : "no data.");
