/** made returns a new unique id for a thread or a run. */
export function made(kind: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `${kind}-${Array.from(bytes, (b) => (b % 36).toString(36)).join("")}`;
}
