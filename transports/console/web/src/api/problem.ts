/** Problem is an error answer of the server, with a message to show. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly retryAfter: number; // seconds, 0 if unknown
  readonly requestId: string;
  readonly place: string; // in the request's body, as a JSON pointer; "" if unknown

  constructor(status: number, code: string, detail: string, retryAfter = 0, requestId = "", place = "") {
    super(detail);
    this.name = "Problem";
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
    this.place = place;
  }
}

interface Body {
  detail?: unknown;
  code?: unknown;
  requestId?: unknown;
  place?: unknown;
}

/** problemOf reads the error in an answer. */
export function problemOf(response: Response, body: unknown): Problem {
  const b: Body = typeof body === "object" && body !== null ? body : {};
  const detail = typeof b.detail === "string" ? b.detail : `The server answered ${response.status} ${response.statusText}`.trim();
  const code = typeof b.code === "string" ? b.code : "";
  const requestId = typeof b.requestId === "string" ? b.requestId : "";
  return new Problem(response.status, code, detail, Number(response.headers.get("Retry-After")) || 0, requestId, typeof b.place === "string" ? b.place : "");
}

/** lost reports whether the server was unreachable or asks for a retry. */
export function lost(error: unknown): boolean {
  return error instanceof TypeError || (error instanceof Problem && (error.status === 503 || error.status === 502));
}

/** missing reports whether the answer is 404. */
export function missing(error: unknown): boolean {
  return error instanceof Problem && error.status === 404;
}

/** say returns the message of an error. */
export function say(error: unknown): string {
  if (error instanceof Problem) return error.requestId ? `${error.message} (request ${error.requestId})` : error.message;
  if (error instanceof TypeError) return "The server cannot be reached.";
  return error instanceof Error ? error.message : String(error);
}
