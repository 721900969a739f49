import createClient, { type Middleware } from "openapi-fetch";
import { parse } from "./json";
import { Problem, problemOf } from "./problem";
import type { paths } from "./schema";
import { session } from "./session";

/** api requests routes with the types of openapi.json. Use it with ok, which returns the body or throws a Problem. */
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

/** ok returns the body of a successful answer, and throws a Problem otherwise. */
export async function ok<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (!response.ok) throw refused(problemOf(response, error));
  return data as T;
}

/** ask requests routes that are not in openapi.json, with bodies that are not JSON, or with answers that contain users' values: it keeps their numbers exact. */
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

/** save requests a body of a media type and lets the browser save it under a name. */
export async function save(path: string, type: string, name: string): Promise<void> {
  const headers = new Headers({ Accept: type });
  if (session.authorization) headers.set("Authorization", session.authorization);
  const response = await fetch(path, { headers });
  if (!response.ok) throw refused(problemOf(response, await response.json().catch(() => undefined)));
  download(await response.blob(), name);
}

/** download lets the browser save content under a name. */
export function download(content: Blob, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** begin makes a request that is answered with a stream, and closes the stream once it has started. */
export async function begin(path: string, body: object): Promise<void> {
  const stop = new AbortController();
  const headers = new Headers({ "Content-Type": "application/json", Accept: "text/event-stream" });
  if (session.authorization) headers.set("Authorization", session.authorization);
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal: stop.signal });
  if (!response.ok) throw refused(problemOf(response, await response.json().catch(() => undefined)));
  stop.abort();
}

const refusals = new Set<(why?: string) => void>();

/** onRefused calls its argument when the server rejects the credential, with the server's reason if it has given one. */
export function onRefused(tell: (why?: string) => void) {
  refusals.add(tell);
  return () => refusals.delete(tell);
}

/** ended reports that the server rejects the credential. */
export function ended(why?: string) {
  for (const tell of refusals) tell(why);
}

function refused(p: Problem): Problem {
  if (p.status === 401) ended(p.message);
  return p;
}

/** ticket returns the query that authorizes a stream of the path, "" without a credential. */
export async function ticket(path: string, projectId: string): Promise<string> {
  if (!session.authorization) return "";
  const made = await ok(
    api.POST("/api/v1/stream-tickets", { params: { query: { projectId } }, body: { path } }),
  );
  return `ticket=${encodeURIComponent(made.ticket)}`;
}
