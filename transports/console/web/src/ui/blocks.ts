const piece = 4_000; // characters

/** blocks splits a Markdown text into parts that can be parsed alone: text appended at the end does not change earlier parts. */
export function blocks(text: string): string[] {
  const list: string[] = [];
  let begin = 0;
  let fenced = false;
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf("\n", at);
    const next = end < 0 ? text.length : end + 1;
    const line = text.slice(at, end < 0 ? text.length : end).trim();
    if (/^(```|~~~)/.test(line)) fenced = !fenced;
    if (line === "" && !fenced && next - begin > 1) {
      list.push(text.slice(begin, next));
      begin = next;
    }
    at = next;
  }
  if (begin < text.length) list.push(text.slice(begin));
  return list;
}

/** pieces returns the first parts of a text, about a screen each, split at ends of lines or words. */
export function pieces(text: string, most: number): string[] {
  const list: string[] = [];
  for (let at = 0; at < text.length && list.length < most; ) {
    const end = at + piece >= text.length ? text.length : cut(text, at);
    list.push(text.slice(at, end));
    at = end;
  }
  return list;
}

function cut(text: string, from: number): number {
  const to = from + piece;
  const line = text.lastIndexOf("\n", to);
  if (line > from) return line + 1;
  const word = text.lastIndexOf(" ", to);
  return word > from ? word + 1 : to;
}
