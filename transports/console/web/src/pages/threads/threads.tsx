import { useEffect, useState } from "react";
import { Link, useLocation, useRoute, useSearch } from "wouter";
import { useThreads } from "../../api/threads";
import { useSeesOthers } from "../../app/context";
import { useKeys } from "../../app/keys";
import { Ago, Empty, Failure, Loading } from "../../ui/basics";
import { brief } from "../../ui/format";
import { StatusBadge } from "../../ui/status";
import { OneThread } from "./thread";
import "./threads.css";

/** The page Threads: conversations, and beside the list the one that is chosen. */
export default function Page() {
  const [, params] = useRoute("/threads/:thread");
  const chosen = params?.thread ? decodeURIComponent(params.thread) : "";
  return (
    <div className="page threads" data-chosen={chosen !== ""}>
      <List chosen={chosen} />
      {chosen && <OneThread key={chosen} conversationId={chosen} />}
    </div>
  );
}

function List({ chosen }: { chosen: string }) {
  const search = useSearch();
  const query = new URLSearchParams(search);
  const [path, go] = useLocation();
  const others = useSeesOthers();
  const [q, setQ] = useState(query.get("q") ?? "");
  const [user, setUser] = useState(query.get("user") ?? "");
  const archived = query.get("archived") === "true";
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useThreads({ q: query.get("q") ?? "", user: query.get("user") ?? "", archived });
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(search);
    if (value) next.set(name, value);
    else next.delete(name);
    go(`${path}${next.size > 0 ? `?${next}` : ""}`, { replace: true });
  };
  useEffect(() => {
    const timer = setTimeout(() => q !== (query.get("q") ?? "") && set("q", q), 250);
    return () => clearTimeout(timer);
  }, [q]);
  useEffect(() => {
    const timer = setTimeout(() => user !== (query.get("user") ?? "") && set("user", user), 250);
    return () => clearTimeout(timer);
  }, [user]);
  const items = data?.pages.flatMap((p) => p.items) ?? [];
  const to = (id: string) => `/threads/${encodeURIComponent(id)}${search && `?${search}`}`;
  const walk = (step: number) => {
    const next = items[Math.max(0, items.findIndex((t) => t.conversationId === chosen) + step)];
    if (next) go(to(next.conversationId));
  };
  useKeys("Threads", { j: { does: "the next thread", run: () => walk(1) }, k: { does: "the thread before", run: () => walk(-1) } });
  return (
    <section className="thread-list" aria-label="Threads">
      <header className="page-head">
        <h1>Threads</h1>
      </header>
      <div className="row wraps">
        <input className="input grow" type="search" aria-label="Title" placeholder="Search titles" value={q} onChange={(e) => setQ(e.target.value)} />
        {others && <input className="input grow" type="search" aria-label="User" placeholder="User" value={user} onChange={(e) => setUser(e.target.value)} />}
        <label className="check">
          <input type="checkbox" checked={archived} onChange={(e) => set("archived", e.target.checked ? "true" : "")} /> Archived
        </label>
      </div>
      {error && !data && <Failure error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && items.length === 0 && !hasNextPage && (
        <Empty title={archived ? "Nothing is archived" : "No threads"}>{q ? "No title has these words." : "What is said in the playground, or by programs, is here."}</Empty>
      )}
      <ul className="panel">
        {items.map((t) => (
          <li key={t.conversationId}>
            <Link href={to(t.conversationId)} aria-current={t.conversationId === chosen ? "true" : undefined}>
              <span className="row">
                <strong className="clip grow">{t.title || brief(t.threadId)}</strong>
                {t.status && <StatusBadge status={t.status} />}
              </span>
              <span className="row muted">
                <span className="clip grow">
                  {t.agent}
                  {others && t.user !== undefined && ` · ${t.user}`}
                </span>
                <Ago at={t.updatedAt} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {hasNextPage && (
        <button type="button" className="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          Earlier threads
        </button>
      )}
    </section>
  );
}
