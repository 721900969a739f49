import { useState } from "react";
import { useOffers, useWorkflows } from "../../api/queries";
import { useSeesOthers } from "../../app/context";
import { statuses, tone, word } from "../../ui/status";
import { Typed } from "../../ui/typed";
import { count, type Filters } from "./filters";
import { Saved } from "./saved";

const none: Filters = { status: [], agent: "", workflow: "", thread: "", user: "", since: "", until: "", text: "", tag: "" };

const times = [
  { value: "", name: "Any time" },
  { value: "15m", name: "Last 15 minutes" },
  { value: "1h", name: "Last hour" },
  { value: "24h", name: "Last day" },
  { value: "7d", name: "Last week" },
];

/** FilterBar is the filters of the list of runs. */
export function FilterBar({ filters, change }: { filters: Filters; change: (what: Partial<Filters>) => void }) {
  const agents = useOffers().data?.agents ?? [];
  const workflows = useWorkflows().data?.workflows ?? [];
  const others = useSeesOthers();
  const [more, setMore] = useState(Boolean(filters.thread || filters.user || filters.until || filters.tag));
  const what = filters.agent ? `a:${filters.agent}` : filters.workflow ? `w:${filters.workflow}` : "";
  const known = [...agents.map((a) => `a:${a.name}`), ...workflows.map((w) => `w:${w.name}`)];
  return (
    <div className="filters">
      <div className="chips" role="group" aria-label="Status">
        {statuses.map((s) => (
          <button
            key={s} type="button" className="chip" data-tone={tone(s)} aria-pressed={filters.status.includes(s)}
            onClick={() => change({ status: filters.status.includes(s) ? filters.status.filter((o) => o !== s) : [...filters.status, s] })}
          >
            {word(s)}
          </button>
        ))}
      </div>
      <Typed label="Text" placeholder="Id or words" value={filters.text} set={(text) => change({ text })} />
      <select
        className="input" aria-label="Agent or workflow" value={what}
        onChange={({ target: { value } }) =>
          change({ agent: value.startsWith("a:") ? value.slice(2) : "", workflow: value.startsWith("w:") ? value.slice(2) : "" })
        }
      >
        <option value="">All agents</option>
        {what && !known.includes(what) && <option value={what}>{what.slice(2)}</option>}
        {agents.length > 0 && (
          <optgroup label="Agents">
            {agents.map((a) => (
              <option key={a.name} value={`a:${a.name}`}>
                {a.name}
              </option>
            ))}
          </optgroup>
        )}
        {workflows.length > 0 && (
          <optgroup label="Workflows">
            {workflows.map((w) => (
              <option key={w.name} value={`w:${w.name}`}>
                {w.name}
              </option>
            ))}
          </optgroup>
        )}
      </select>
      <select className="input" aria-label="Time" value={filters.since} onChange={(e) => change({ since: e.target.value })}>
        {times.map((t) => (
          <option key={t.value} value={t.value}>
            {t.name}
          </option>
        ))}
        {!times.some((t) => t.value === filters.since) && <option value={filters.since}>since {filters.since}</option>}
      </select>
      {more && (
        <>
          <Typed label="Thread" placeholder="Thread" value={filters.thread} set={(thread) => change({ thread })} />
          <Typed label="Tag" placeholder="Tag" value={filters.tag} set={(tag) => change({ tag })} />
          {others && <Typed label="User" placeholder="User" value={filters.user} set={(user) => change({ user })} />}
          <label className="until">
            <span className="muted">until</span>
            <input className="input" type="datetime-local" aria-label="Until" value={filters.until} onChange={(e) => change({ until: e.target.value })} />
          </label>
        </>
      )}
      <button type="button" className="button plain" aria-expanded={more} onClick={() => setMore(!more)}>
        {more ? "Less" : "More"}
      </button>
      {count(filters) > 0 && (
        <button type="button" className="button plain" onClick={() => change(none)}>
          Clear
        </button>
      )}
      <Saved filtered={count(filters) > 0} />
    </div>
  );
}
