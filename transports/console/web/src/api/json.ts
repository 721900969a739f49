/** Digits is a number that JavaScript has none for, as it was written. JSON.stringify writes it like that. */
export interface Digits {
  readonly rawJSON: string;
}

// What JSON has in newer browsers. Others round.
declare global {
  interface JSON {
    rawJSON?(text: string): Digits;
    isRawJSON?(value: unknown): value is Digits;
    parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  }
}

const long = /[\d.]{16}/; // without so many digits in a row no number of a text is rounded

/** parse reads JSON. Numbers that would be rounded are Digits. */
export function parse(text: string): unknown {
  if (!JSON.rawJSON || !long.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, { source }) => (typeof value === "number" && source && rounded(value, source) ? JSON.rawJSON?.(source) : value));
}

function rounded(value: number, source: string): boolean {
  const digits = source.replace(/[eE].*/, "").replace(/\D/g, "").replace(/^0+/, "");
  return digits.length > 15 && String(value) !== source;
}

/** isDigits reports whether a value is a number as it was written. */
export const isDigits = (value: unknown): value is Digits => JSON.isRawJSON?.(value) ?? false;
