import { useInfiniteQuery } from "@tanstack/react-query";
import { ask } from "../../api/client";
import type { Run } from "../../api/types";
import { useProject } from "../../app/context";
import { asked, type Filters } from "./filters";

interface Page {
  items: Run[];
  nextCursor: string | null;
  total: number | null;
}

const pageSize = 50;

/** useRuns returns the filtered runs, newest first, in pages. */
export function useRuns(filters: Filters) {
  const project = useProject();
  return useInfiniteQuery({
    queryKey: ["runs", project, filters],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const query = asked(filters);
      query.set("limit", String(pageSize));
      if (pageParam) query.set("cursor", pageParam);
      else query.set("count", "true");
      return ask<Page>(`/api/projects/${encodeURIComponent(project)}/agent-runs?${query}`);
    },
    getNextPageParam: (last) => last.nextCursor,
    placeholderData: (before) => before,
  });
}
