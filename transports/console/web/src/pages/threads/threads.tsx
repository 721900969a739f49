import { useEffect } from "react";
import { Link, useLocation } from "wouter";
import { useName, useSearch, useSetSearch } from "../../app/address";
import { useThreads, useUsers } from "../../api/threads";
import { useSeesOthers } from "../../app/context";
import { useKeys } from "../../app/keys";
import { useTitle } from "../../app/title";
import { Ago, Empty, Failure, Loading } from "../../ui/basics";
import { brief } from "../../ui/format";
import { StatusBadge } from "../../ui/status";
import { Typed } from "../../ui/typed";
import { nameOf, OneThread } from "./thread";
import "./threads.css";

/** The page Threads: the list of conversations, and the chosen one. */
export default function Page() {
  const chosen = useName("threads");
  useTitle(chosen === "" ? "Threads" : "");
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
  const [, go] = useLocation();
  const setSearch = useSetSearch();
  const others = useSeesOthers();
  const q = query.get("q") ?? "";
  const archived = query.get("archived") === "true";
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useThreads({ q, user: query.get("user") ?? "", archived });
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(search);
    if (value) next.set(name, value);
    else next.delete(name);
    setSearch(next);
  };
  const items = data?.pages.flatMap((p) => p.items) ?? [];
  const to = (id: string) => `/threads/${encodeURIComponent(id)}${search && `?${search}`}`;
  const walk = (step: number) => {
    const next = items[Math.max(0, items.findIndex((t) => t.conversationId === chosen) + step)];
    if (next) go(to(next.conversationId));
  };
  useEffect(() => {
    if (items.length === 0 && hasNextPage && !isFetchingNextPage) void fetchNextPage(); // filtered pages may be empty
  }, [items.length, hasNextPage, isFetchingNextPage, fetchNextPage]);
  useKeys("Threads", { j: { does: "next thread", run: () => walk(1) }, k: { does: "previous thread", run: () => walk(-1) } });
  return (
    <section className="thread-list" aria-label="Threads">
      <header className="page-head">
        <h1>Threads</h1>
      </header>
      <div className="row wraps">
        <Typed className="grow" label="Title" placeholder="Search titles" value={q} set={(text) => set("q", text)} />
        {others && <Whose user={query.get("user") ?? ""} choose={(user) => set("user", user)} />}
        <label className="check">
          <input type="checkbox" checked={archived} onChange={(e) => set("archived", e.target.checked ? "true" : "")} /> Archived
        </label>
      </div>
      {error && !data && <Failure error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && items.length === 0 && !hasNextPage && (
        <Empty title={archived ? "No archived threads" : "No threads"}>
          {q ? "No matches." : archived ? "Archived threads appear here." : <><Link href="/playground">Start one in the playground</Link>, or from a program.</>}
        </Empty>
      )}
      <ul className="panel">
        {items.map((t) => (
          <li key={t.conversationId}>
            <Link href={to(t.conversationId)} aria-current={t.conversationId === chosen ? "true" : undefined}>
              <span className="row">
                <strong className="clip grow" dir="auto">{nameOf(t)}</strong>
                {t.status && <StatusBadge status={t.status} />}
              </span>
              <span className="row muted">
                <span className="clip grow">
                  {[t.agent, others && t.user, !t.title && t.asked && brief(t.threadId)].filter(Boolean).join(" · ")}
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

// Chooses the user, or all users. If there are too many users for a list, the name is typed.
function Whose({ user, choose }: { user: string; choose: (user: string) => void }) {
  const { data } = useUsers();
  const users = data?.items ?? [];
  const known = user === "" || users.some((u) => u.user === user);
  return (
    <>
      <select className="input grow" aria-label="User" value={user} onChange={(e) => choose(e.target.value)}>
        <option value="">Everybody</option>
        {!known && <option>{user}</option>}
        {users.map((u) => (
          <option key={u.user} value={u.user}>
            {u.user} ({u.threads >= 1_000 ? "1 000 or more" : u.threads})
          </option>
        ))}
      </select>
      {data?.nextCursor && (
        <input
          className="input grow" type="search" aria-label="Another user" placeholder="Another user, then Enter" defaultValue={known ? "" : user}
          onKeyDown={(e) => e.key === "Enter" && choose(e.currentTarget.value.trim())}
        />
      )}
    </>
  );
}
