import { isDigits } from "../api/json";

/** short returns a value as JSON, cut after a number of characters. The rest costs nothing, however large the value is. */
export function short(value: unknown, most = 300): string {
  let out = "";
  const write = (v: unknown): boolean => {
    if (out.length > most) return false;
    if (typeof v === "string") out += JSON.stringify(v.length > most ? v.slice(0, most) : v);
    else if (typeof v !== "object" || v === null || isDigits(v)) out += JSON.stringify(v) ?? "null";
    else if (Array.isArray(v)) list("[", "]", v.length, (i) => write(v[i]));
    else object(v);
    return out.length <= most;
  };
  const list = (open: string, close: string, length: number, member: (i: number) => boolean) => {
    out += open;
    for (let i = 0; i < length; i++) {
      if (i > 0) out += ",";
      if (!member(i)) return;
    }
    out += close;
  };
  const object = (v: object) => {
    out += "{";
    let first = true;
    for (const name in v) {
      if (!first) out += ",";
      first = false;
      out += `${JSON.stringify(name.slice(0, most))}:`;
      if (!write((v as Record<string, unknown>)[name])) return;
    }
    out += "}";
  };
  write(value);
  return out.length > most ? `${out.slice(0, most)}…` : out;
}
