const piece = 4_000; // characters

/** blocks are the parts of a Markdown text that can be read alone: what grows at its end leaves those before it as they are. */
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

/** pieces are the first parts of a text, of about a screen each, cut where a line or else a word ends. */
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
