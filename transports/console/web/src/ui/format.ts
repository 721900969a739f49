const time = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** number formats a count with separators. */
export const number = (n: number) => whole.format(n);

/** compact formats a large count in few characters. */
export const compact = (n: number) => (Math.abs(n) < 10_000 ? whole.format(n) : short.format(n));

/** duration formats milliseconds in a suitable unit. */
export function duration(ms: number): string {
  if (ms < 1) return "< 1 ms";
  if (ms < 10) return `${Number(ms.toFixed(1))} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1_000).toFixed(2)} s`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const s = Math.floor(ms / 1_000);
  if (s < 3_600) return both(s, 60, "min", 1, "s");
  if (s < 86_400) return both(s, 3_600, "h", 60, "min");
  return both(s, 86_400, "d", 3_600, "h");
}

// both formats a duration in two units, without a zero in the smaller one.
function both(s: number, large: number, one: string, small: number, other: string): string {
  const rest = Math.floor((s % large) / small);
  return `${Math.floor(s / large)} ${one}${rest > 0 ? ` ${rest} ${other}` : ""}`;
}

/** clock formats a time, with the date unless it is today. */
export function clock(at: string | number | Date, now = new Date()): string {
  const date = new Date(at);
  return date.toDateString() === now.toDateString() ? time.format(date) : `${day.format(date)}, ${time.format(date).slice(0, 5)}`;
}

/** exactly formats a complete time. */
export const exactly = (at: string | number | Date) => full.format(new Date(at));

/** ago formats the age of a time. */
export function ago(at: string | number, now = Date.now()): string {
  const ms = Math.max(0, now - new Date(at).getTime());
  if (ms < 5_000) return "just now";
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s ago`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ago`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ago`;
  return `${Math.floor(ms / 86_400_000)} d ago`;
}

/** amount formats tokens, or money in a currency. */
export function amount(n: number, unit: string): string {
  if (unit === "tokens") return `${compact(n)} tokens`;
  if (!/^[A-Z]{3}$/.test(unit)) return `${Number(n.toPrecision(3))} ${unit}`.trim();
  return new Intl.NumberFormat("en", { style: "currency", currency: unit, ...(n > 0 && n < 0.01 ? { maximumSignificantDigits: 2 } : {}) }).format(n);
}

export function bytes(n: number): string {
  if (n < 1_024) return `${n} B`;
  if (n < 1_048_576) return `${(n / 1_024).toFixed(n < 10_240 ? 1 : 0)} KiB`;
  if (n < 1_073_741_824) return `${(n / 1_048_576).toFixed(1)} MiB`;
  return `${(n / 1_073_741_824).toFixed(1)} GiB`;
}

/** brief shortens an id to its end, which distinguishes UUIDv7 ids. */
export const brief = (id: string) => (/^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) ? `…${id.slice(-8)}` : id);

/** rate formats a count per time. */
export const rate = (n: number) => (n >= 10 ? compact(n) : String(Number(n.toFixed(2))));

/** opening returns the beginning of a text as one line: texts may have megabytes. */
export const opening = (text: string) => text.slice(0, 500).trim();
