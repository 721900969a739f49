import { useQuery } from "@tanstack/react-query";
import { runURL } from "../../api/queries";
import { ask } from "../../api/client";
import type { Run, Workflow } from "../../api/types";
import { useProject } from "../../app/context";

/** useDefinition returns the workflow definition of a run at its start, nothing for an agent's run. */
export function useDefinition(run: Run): Workflow | undefined {
  const project = useProject();
  return useQuery({
    queryKey: ["definition", project, run.id, run.user ?? ""],
    enabled: run.agent === null,
    staleTime: Infinity,
    queryFn: () => ask<Workflow>(runURL(project, run, "/definition")),
  }).data;
}
