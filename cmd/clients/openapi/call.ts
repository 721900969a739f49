// A program with a client whose types openapi-typescript has generated.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

// call starts a run and returns its final status.
export async function call(baseUrl: string): Promise<string> {
  const client = createClient<paths>({ baseUrl });
  const started = await client.POST("/api/v1/agent/runs", { body: { agent: "echo", content: "hello" } });
  if (!started.data) throw new Error(started.error?.detail);
  const runId: string = started.data.runId;
  const watched = await client.GET("/api/v1/agent/runs/{thread_id}/events", {
    params: { path: { thread_id: started.data.threadId } },
    parseAs: "text",
  });
  if (!watched.data?.includes("event: RUN_FINISHED")) throw new Error(watched.data);
  const path = { projectId: "default", runId };
  const run = await client.GET("/api/projects/{projectId}/agent-runs/{runId}", { params: { path } });
  if (!run.data) throw new Error(run.error?.detail);
  const listed = await client.GET("/api/projects/{projectId}/agent-runs", { params: { path, query: { limit: 1 } } });
  if (listed.data?.items[0]?.id !== runId) throw new Error("the run is not listed");
  return run.data.status;
}
