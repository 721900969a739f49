import { useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { say } from "../api/problem";
import { ago, clock, duration, exactly } from "./format";
import * as icons from "./icons";
import { Drawn } from "./drawn";
import { toast } from "./toast";

/** CopyButton copies a text to the clipboard. */
export function CopyButton({ text, label = "Copy", small = true }: { text: string | (() => string); label?: string; small?: boolean }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1_500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      setDone(true);
    } catch {
      toast("The browser does not allow this page to use the clipboard.", "bad");
    }
  };
  return (
    <button type="button" className={`button plain ${small ? "small" : ""}`} onClick={() => void copy()}>
      {done ? <icons.Check /> : <icons.Copy />}
      <span aria-live="polite">{done ? "Copied" : label}</span>
    </button>
  );
}

/** CopyIcon is CopyButton without a label. */
export function CopyIcon({ text, label }: { text: string | (() => string); label: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1_500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () =>
    navigator.clipboard.writeText(typeof text === "function" ? text() : text).then(
      () => setDone(true),
      () => toast("The browser does not allow this page to use the clipboard.", "bad"),
    );
  return (
    <button type="button" className="button plain icon small" title={label} aria-label={done ? "Copied" : label} onClick={() => void copy()}>
      {done ? <icons.Check /> : <icons.Copy />}
    </button>
  );
}

/** Panel is a titled section of a page. */
export function Panel({ title, actions, children, flush = false, className = "" }: {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  flush?: boolean; // no padding
  className?: string;
}) {
  return (
    <section className={`panel ${className}`}>
      {title !== undefined && (
        <header>
          <h2 className="grow">{title}</h2>
          {actions}
        </header>
      )}
      {flush ? <Drawn>{children}</Drawn> : <div className="body"><Drawn>{children}</Drawn></div>}
    </section>
  );
}

/** Empty is a placeholder for missing data, with a hint. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
    </div>
  );
}

/** Failure shows an error and offers a retry. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  return (
    <div className="notice" data-tone="bad" role="alert">
      <icons.Warn />
      <span className="grow wrap">{say(error)}</span>
      {retry && (
        <button type="button" className="button small" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div className="stack" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} className="skeleton" style={{ width: `${88 - ((i * 17) % 40)}%` }} />
      ))}
    </div>
  );
}

/** useNow returns the time, updated in the interval; 0 does not update. */
export function useNow(every: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (every <= 0) return;
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** useMatch reports whether the window matches a media query, and follows changes. */
export function useMatch(query: string): boolean {
  return useSyncExternalStore(
    (changed) => {
      const media = matchMedia(query);
      media.addEventListener("change", changed);
      return () => media.removeEventListener("change", changed);
    },
    () => matchMedia(query).matches,
  );
}

/** useUnit returns the ratio of the letter size to the usual one, which scales pixel sizes. */
export function useUnit(): number {
  useMatch("(min-width: 2200px)");
  useMatch("(min-width: 3200px)");
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
}

/** Ago shows the age of a time. */
export function Ago({ at }: { at: string }) {
  const now = useNow(10_000);
  return (
    <time dateTime={at} title={exactly(at)} className="num nowrap">
      {ago(at, Math.max(now, Date.now()))}
    </time>
  );
}

export function Clock({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exactly(at)} className="num nowrap">
      {clock(at)}
    </time>
  );
}

/** Left counts down to a time. */
export function Left({ to }: { to: string }) {
  const now = useNow(500);
  return <span className="num nowrap">{duration(Math.max(0, new Date(to).getTime() - now))}</span>;
}

/** Took shows a duration, until now if it has not ended. */
export function Took({ from, to }: { from: string | null; to: string | null }) {
  const now = useNow(from && !to ? 500 : 0);
  if (!from) return <span className="muted">–</span>;
  const end = to ? new Date(to).getTime() : Math.max(now, Date.now());
  return <span className="num nowrap">{duration(Math.max(0, end - new Date(from).getTime()))}</span>;
}
