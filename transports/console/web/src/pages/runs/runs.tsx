import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { download } from "../../api/client";
import type { Run } from "../../api/types";
import { useProject, useSeesOthers } from "../../app/context";
import { useKeys } from "../../app/keys";
import { near } from "../../app/live";
import { useTitle } from "../../app/title";
import { runPath } from "../../app/paths";
import { Empty, Failure, Loading } from "../../ui/basics";
import { number } from "../../ui/format";
import { failed } from "../../ui/toast";
import { Bulk } from "./bulk";
import { csvOf } from "./csv";
import { FilterBar } from "./filter-bar";
import { count, useFilters } from "./filters";
import { Row } from "./row";
import "./runs.css";
import { useRuns } from "./use-runs";

export default function Page() {
  useTitle("Runs");
  const [filters, setFilters] = useFilters();
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage, isPlaceholderData } = useRuns(filters);
  const project = useProject();
  const csv = useMutation({ mutationFn: () => csvOf(project, filters).then((blob) => download(blob, "runs.csv")) });
  const runs = useMemo(() => unique(data?.pages.flatMap((p) => p.items) ?? []), [data]);
  const total = data?.pages[0]?.total;
  const [walked, setWalked] = useState(""); // key of the focused row: rows move when runs arrive
  const at = runs.findIndex((r) => keyOf(r) === walked);
  const [picks, setPicked] = useState<ReadonlyMap<string, Run>>(new Map());
  const picked = useMemo(() => new Map([...picks].map(([key, run]) => [key, runs.find((r) => keyOf(r) === key) ?? run])), [picks, runs]);
  const queries = useQueryClient();
  const [, go] = useLocation();
  const others = useSeesOthers();
  const list = useRef<HTMLUListElement>(null);
  const narrow = matchMedia("(max-width: 860px)").matches;
  const rows = useWindowVirtualizer({
    count: runs.length,
    estimateSize: () => (narrow ? 88 : 52),
    overscan: 10,
    scrollMargin: list.current?.offsetTop ?? 0,
    getItemKey: (i) => keyOf(runs[i]),
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? -1;
  useEffect(() => {
    if (last >= runs.length - 10 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [last, runs.length, hasNextPage, isFetchingNextPage, fetchNextPage]);
  const move = (to: number) => {
    const next = Math.max(0, Math.min(to, runs.length - 1));
    setWalked(keyOf(runs[next]));
    rows.scrollToIndex(next);
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>(`[data-index="${next}"] a`)?.focus({ preventScroll: true }));
  };
  const pick = (run: Run | undefined) => {
    if (!run) return;
    const next = new Map(picked);
    if (!next.delete(keyOf(run))) next.set(keyOf(run), run);
    setPicked(next);
  };
  useKeys("Runs", {
    j: { does: "next run", run: () => move(at + 1) },
    k: { does: "previous run", run: () => move(at - 1) },
    Enter: { does: "open it", run: () => runs[at] && go(runPath(runs[at])) },
    x: { does: "select or unselect", run: () => pick(runs[at]) },
    a: { does: "select all loaded runs", run: () => pickAll() },
    Escape: { does: "pick none", run: () => setPicked(new Map()) },
  });
  const keep = (list: Run[]) => setPicked(new Map(list.map((r) => [keyOf(r), r])));
  const pickAll = () => keep(runs);
  const all = runs.length > 0 && runs.every((r) => picked.has(keyOf(r)));
  return (
    <div className="page">
      <header className="page-head">
        <h1>Runs</h1>
        {total !== undefined && total !== null && (
          <span className="muted num" aria-live="polite">
            {number(total)}
            {count(filters) > 0 && " found"}
          </span>
        )}
        <div className="actions">
          {runs.length > 0 && (
            <button type="button" className="button plain small" disabled={csv.isPending} onClick={() => csv.mutate(undefined, { onError: failed })}>
              CSV
            </button>
          )}
          {(data?.pages.length ?? 0) > near && (
            <>
              <span className="muted">Paused while you read further back.</span>
              <button
                type="button" className="button small"
                onClick={() => {
                  scrollTo({ top: 0 });
                  void queries.resetQueries({ queryKey: ["runs"] });
                }}
              >
                The latest runs
              </button>
            </>
          )}
        </div>
      </header>
      <FilterBar filters={filters} change={setFilters} />
      {error && <Failure error={error} retry={() => void refetch()} />}
      {!error && runs.length === 0 && (!data || hasNextPage) && <Loading lines={8} />}
      {data && runs.length === 0 && !hasNextPage && (
        <Empty title={count(filters) > 0 ? "No matches" : "No runs yet"}>
          {count(filters) > 0 ? "Remove a filter." : <><Link href="/playground">Talk to an agent</Link>, and its run appears here.</>}
        </Empty>
      )}
      {runs.length > 0 && (
        <section className="panel runs" data-stale={isPlaceholderData} data-others={others}>
          <div className="run-row head" aria-hidden={picked.size > 0}>
            <input
              type="checkbox" aria-label="Select all loaded runs" checked={all}
              onChange={() => (all ? setPicked(new Map()) : pickAll())}
            />
            <span>Status</span>
            <span>Asked</span>
            <span>Agent</span>
            {others && <span>User</span>}
            <span>Began</span>
            <span className="right">Took</span>
            <span className="right">Tokens</span>
            <span className="right">Cost</span>
          </div>
          <ul ref={list} style={{ height: rows.getTotalSize() }} aria-label="Runs">
            {shown.map((row) => {
              const run = runs[row.index];
              return (
                run && (
                  <li
                    key={row.key} ref={rows.measureElement} data-index={row.index} aria-current={row.index === at || undefined}
                    style={{ transform: `translateY(${row.start - rows.options.scrollMargin}px)` }}
                  >
                    <Row run={run} others={others} picked={picked.has(keyOf(run))} pick={() => pick(run)} />
                  </li>
                )
              );
            })}
          </ul>
          {isFetchingNextPage && <Loading lines={2} />}
        </section>
      )}
      {picked.size > 0 && <Bulk runs={[...picked.values()]} keep={keep} />}
    </div>
  );
}

// Two users may have runs with the same id.
function keyOf(run: Run | undefined): string {
  return run ? `${run.conversationId}/${run.id}` : "";
}

// A run that started while pages were read may be on two of them.
function unique(runs: Run[]): Run[] {
  return [...new Map(runs.map((r) => [keyOf(r), r])).values()];
}
