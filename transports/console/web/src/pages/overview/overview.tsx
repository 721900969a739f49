import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { useSearch } from "../../app/address";
import { useStats, useWaiting } from "../../api/queries";
import type { Stats, Window } from "../../api/types";
import { useMay } from "../../app/context";
import { useTitle } from "../../app/title";
import { runPath } from "../../app/paths";
import { Ago, Empty, Failure, Loading, Panel } from "../../ui/basics";
import { Begin, useFresh } from "./begin";
import { Charts } from "./charts";
import { Figures, Now } from "./figures";
import { Latest } from "./latest";
import { Spending } from "./spending";
import "./overview.css";
import { Agents, Failures, Instances } from "./tables";

const windows: { id: Window; name: string }[] = [
  { id: "hour", name: "Hour" },
  { id: "day", name: "Day" },
  { id: "week", name: "Week" },
];

/** The overview: the statistics of the project, and open questions. */
export default function Page() {
  useTitle("Overview");
  const [path, go] = useLocation();
  const wanted = new URLSearchParams(useSearch()).get("window");
  const window = windows.find((w) => w.id === wanted)?.id ?? "hour";
  const viewer = useMay("viewer");
  return (
    <div className="page">
      <header className="page-head">
        <h1>Overview</h1>
        {viewer && (
          <div className="actions segments" role="group" aria-label="Time window">
            {windows.map((w) => (
              <button
                key={w.id} type="button" className="button small" aria-pressed={w.id === window}
                onClick={() => go(w.id === "hour" ? path : `${path}?window=${w.id}`, { replace: true })}
              >
                {w.name}
              </button>
            ))}
          </div>
        )}
      </header>
      {viewer ? (
        <Project window={window} />
      ) : (
        <Own />
      )}
    </div>
  );
}

// The overview for callers that may not see the project's statistics.
function Own() {
  const fresh = useFresh();
  return (
    <div className="stack">
      {fresh && <Begin />}
      <Spending window="week" />
      <Wanted>
        <Latest title="Your latest runs" empty="No runs yet." />
      </Wanted>
    </div>
  );
}

function Project({ window }: { window: Window }) {
  const { data: stats, error, refetch, isPlaceholderData } = useStats(window);
  const fresh = useFresh();
  if (!stats) {
    return (
      <>
        {error ? <Failure error={error} retry={() => void refetch()} /> : <Loading lines={6} />}
        <Wanted />
      </>
    );
  }
  return (
    <div className="stack figures-and-charts" data-stale={isPlaceholderData}>
      <Now stats={stats} />
      {stats.counting && (
        <p className="notice" role="status">
          Older runs are still being counted; these figures are incomplete.
        </p>
      )}
      {!(fresh && !ran(stats)) && <Figures stats={stats} />}
      {ran(stats) && <Charts stats={stats} />}
      {!ran(stats) && fresh === false && <Quiet />}
      {!ran(stats) && fresh && <Begin />}
      {ran(stats) && (
        <div className="columns">
          <Agents stats={stats} />
          <Failures stats={stats} />
        </div>
      )}
      <Spending window={window} />
      <Wanted>
        <Instances stats={stats} />
      </Wanted>
    </div>
  );
}

const ran = ({ totals }: Stats) => totals.started + totals.completed + totals.failed + totals.cancelled > 0;

function Quiet() {
  return (
    <Panel>
      <Empty title="No runs in this period">
        <Link href="/playground">Talk to an agent</Link>, or show <Link href="/?window=week">the last week</Link>.
      </Empty>
    </Panel>
  );
}

// Open questions, and the instances.
function Wanted({ children }: { children?: ReactNode }) {
  return (
    <div className="columns">
      <Asked />
      <Latest title="Latest failures" status="FAILED" empty="No failures." />
      {children}
    </div>
  );
}

function Asked() {
  const { data, error } = useWaiting();
  const items = data?.items.slice(0, 6) ?? [];
  return (
    <Panel title="Waiting for an answer" flush actions={<Link href="/waiting">All</Link>}>
      {error ? <Failure error={error} /> : !data ? <Loading /> : null}
      {data && items.length === 0 && <p className="quiet muted">Nothing waits.</p>}
      <ul className="brief-list">
        {items.map((w) => (
          <li key={`${w.runId}/${w.id}`}>
            <Link href={runPath({ id: w.runId, user: w.user })} className="grow clip">
              {w.message || (w.toolName ? `Call of the client’s tool ${w.toolName}` : "Call of a client’s tool")}
            </Link>
            <span className="muted clip">{w.agent}</span>
            <span className="muted">
              <Ago at={w.createdAt} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
