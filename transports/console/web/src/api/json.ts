/** Digits is a number that JavaScript cannot represent, as its original text. JSON.stringify writes that. */
export interface Digits {
  readonly rawJSON: string;
}

// Features of JSON in newer browsers. Others round.
declare global {
  interface JSON {
    rawJSON?(text: string): Digits;
    isRawJSON?(value: unknown): value is Digits;
    parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  }
}

const long = /[\d.]{16}/; // without long runs of digits, no number in the text is rounded

/** parse reads JSON. It returns numbers that would be rounded as Digits. */
export function parse(text: string): unknown {
  if (!JSON.rawJSON || !long.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, { source }) => (typeof value === "number" && source && rounded(value, source) ? JSON.rawJSON?.(source) : value));
}

function rounded(value: number, source: string): boolean {
  const digits = source.replace(/[eE].*/, "").replace(/\D/g, "").replace(/^0+/, "");
  return digits.length > 15 && String(value) !== source;
}

export const isDigits = (value: unknown): value is Digits => JSON.isRawJSON?.(value) ?? false;
