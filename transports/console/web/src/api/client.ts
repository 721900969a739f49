import createClient, { type Middleware } from "openapi-fetch";
import { parse } from "./json";
import { Problem, problemOf } from "./problem";
import type { paths } from "./schema";
import { session } from "./session";

/** api asks the server with the types of openapi.json. Use it through ok, which returns the body or throws a Problem. */
export const api = createClient<paths>({ baseUrl: "" });

const credential: Middleware = {
  onRequest({ request }) {
    if (session.authorization) request.headers.set("Authorization", session.authorization);
    return request;
  },
};
api.use(credential);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** ok returns what was answered with success, and throws a Problem for anything else. */
export async function ok<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (!response.ok) throw refused(problemOf(response, error));
  return data as T;
}

/** ask is for routes that openapi.json does not have yet, for bodies that are no JSON, and for answers with values of users: their numbers are as they came. */
export async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  const headers = new Headers(init.headers);
  if (session.authorization) headers.set("Authorization", session.authorization);
  if (typeof init.body === "string") headers.set("Content-Type", "application/json");
  const response = await fetch(path, { ...init, headers });
  const text = await response.text();
  const body: unknown = text && response.headers.get("Content-Type")?.includes("json") ? parse(text) : undefined;
  if (!response.ok) throw refused(problemOf(response, body));
  return body as T;
}

/** begin asks for what is answered with a stream, and lets go of that once it has begun. */
export async function begin(path: string, body: object): Promise<void> {
  const stop = new AbortController();
  const headers = new Headers({ "Content-Type": "application/json", Accept: "text/event-stream" });
  if (session.authorization) headers.set("Authorization", session.authorization);
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal: stop.signal });
  if (!response.ok) throw refused(problemOf(response, await response.json().catch(() => undefined)));
  stop.abort();
}

const refusals = new Set<() => void>();

/** onRefused calls tell when the server no longer knows the credential. */
export function onRefused(tell: () => void) {
  refusals.add(tell);
  return () => refusals.delete(tell);
}

/** ended says that the server no longer knows the credential. */
export function ended() {
  for (const tell of refusals) tell();
}

function refused(p: Problem): Problem {
  if (p.status === 401) ended();
  return p;
}

/** ticket returns the query that opens a stream of that path: none without a credential. */
export async function ticket(path: string, projectId: string): Promise<string> {
  if (!session.authorization) return "";
  const made = await ok(
    api.POST("/api/v1/stream-tickets", { params: { query: { projectId } }, body: { path } }),
  );
  return `ticket=${encodeURIComponent(made.ticket)}`;
}
