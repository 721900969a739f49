import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Percentiles, Stats } from "../../api/types";
import { useMoney } from "../../app/context";
import { ago, compact, duration, number } from "../../ui/format";

/** Now is the number of open runs, and the age of the oldest waiting one. */
export function Now({ stats: { now } }: { stats: Stats }) {
  return (
    <ul className="now" aria-label="Now">
      <Count n={now.running} word="running" status="running" tone="run" />
      <Count n={now.queued} word="queued" status="queued" tone="idle" since={now.oldestQueuedAt} />
      <Count n={now.waiting} word="waiting for an answer" status="waiting" tone="wait" since={now.oldestWaitingAt} />
      {now.parked > 0 && <Count n={now.parked} word="parked" status="waiting" tone="wait" />}
    </ul>
  );
}

const counted = 10_000; // the server's count is capped

function Count({ n, word, status, tone, since }: { n: number; word: string; status: string; tone: string; since?: string | null }) {
  return (
    <li>
      <Link href={`/runs?status=${status}`} data-tone={n > 0 ? tone : "idle"}>
        <strong className="num">{n >= counted ? `${number(counted)}+` : number(n)}</strong> {word}
        {since && <span className="muted">, the first {ago(since)}</span>}
      </Link>
    </li>
  );
}

/** Figures are the totals of the window. */
export function Figures({ stats: { totals, agents } }: { stats: Stats }) {
  const money = useMoney();
  const over = totals.completed + totals.failed + totals.cancelled;
  const input = agents.reduce((n, a) => n + a.inputTokens, 0);
  const output = agents.reduce((n, a) => n + a.outputTokens, 0);
  const priced = agents.filter((a) => a.cost !== null);
  const cost = priced.reduce((n, a) => n + (a.cost ?? 0), 0);
  return (
    <dl className="figures">
      <Figure name="Started">{number(totals.started)}</Figure>
      <Figure name="Failed" about={over > 0 ? `${percent(totals.failed / over)} of ${number(over)} ended runs` : ""} bad={totals.failed > 0}>
        {number(totals.failed)}
      </Figure>
      <Figure name="First event, median" about={tail(totals.firstEventMs)}>
        {median(totals.firstEventMs)}
      </Figure>
      <Figure name="Duration, median" about={tail(totals.durationMs)}>
        {median(totals.durationMs)}
      </Figure>
      <Figure name="Tokens" about={input + output > 0 ? `${compact(input)} in, ${compact(output)} out` : ""}>
        {input + output > 0 ? compact(input + output) : "–"}
      </Figure>
      <Figure name="Cost" about={priced.length > 0 && priced.length < agents.length ? "only models with prices" : ""}>
        {priced.length > 0 ? money(cost) : "–"}
      </Figure>
    </dl>
  );
}

const median = (p: Percentiles | null) => (p ? duration(p.p50) : "–");
const tail = (p: Percentiles | null) => (p ? `95 % within ${duration(p.p95)}` : "");

export const percent = (part: number) => (part > 0 && part < 0.01 ? `${(part * 100).toFixed(1)} %` : `${Math.round(part * 100)} %`);

function Figure({ name, about, bad, children }: { name: string; about?: string; bad?: boolean; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="num" data-bad={bad}>
        {children}
      </dd>
      {about && <dd className="about num">{about}</dd>}
    </div>
  );
}
