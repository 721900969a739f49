import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useEffect, useState, type KeyboardEvent } from "react";
import { useLocation } from "wouter";
import { ask } from "../api/client";
import { say } from "../api/problem";
import { runPath } from "./paths";
import type { Run, Thread } from "../api/types";
import { Dialog } from "../ui/dialog";
import { brief, opening } from "../ui/format";
import { StatusBadge } from "../ui/status";
import { useProject, useSeesOthers } from "./context";

interface Hit {
  path: string;
  title: string;
  about: string;
  run?: Run;
}

/** Search finds runs and threads by their ids and texts. */
export function Search({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [wanted, want] = useState(""); // open the first hit for this text when it arrives
  const [, go] = useLocation();
  const typed = text.trim();
  const settled = useSettled(useDeferredValue(typed));
  const sought = wanted === typed ? typed : settled;
  const found = useHits(sought);
  const hits = found.data ?? [];
  const open = (hit: Hit | undefined) => {
    if (!hit) return;
    onClose();
    go(hit.path);
  };
  useEffect(() => {
    if (wanted !== "" && wanted === typed && found.isSuccess) open(hits[0]);
  }, [wanted, typed, found.isSuccess]);
  const walk = (e: KeyboardEvent) => {
    if (e.key === "ArrowDown") setAt(Math.min(at + 1, hits.length - 1));
    else if (e.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (e.key === "Enter" && sought === typed && found.isSuccess) open(hits[at]);
    else if (e.key === "Enter") want(typed); // the hits belong to another text
    else return;
    e.preventDefault();
  };
  return (
    <Dialog title="Search" onClose={onClose}>
      <input
        className="input" type="search" aria-label="Search runs and threads" placeholder="Id, title, or first words of a message" autoFocus
        role="combobox" aria-expanded={hits.length > 0} aria-controls="hits" aria-activedescendant={hits[at] ? `hit-${at}` : undefined}
        value={text}
        onChange={(e) => {
          setText(e.target.value);
          setAt(0);
        }}
        onKeyDown={walk}
      />
      <ul className="hits" id="hits" role="listbox" aria-label="Found">
        {hits.map((hit, i) => (
          <li key={hit.path} id={`hit-${i}`} role="option" aria-selected={i === at} onMouseMove={() => setAt(i)} onClick={() => open(hit)}>
            <span className="grow clip">{hit.title}</span>
            <span className="muted nowrap clip">{hit.about}</span>
            {hit.run && <StatusBadge status={hit.run.status} />}
          </li>
        ))}
      </ul>
      {found.error && <p className="muted">{say(found.error)}</p>}
      {sought !== "" && found.isSuccess && hits.length === 0 && <p className="muted">Nothing is found for “{sought}”.</p>}
    </Dialog>
  );
}

function useHits(text: string) {
  const others = useSeesOthers();
  const project = encodeURIComponent(useProject());
  return useQuery({
    queryKey: ["search", project, text],
    enabled: text !== "",
    queryFn: async (): Promise<Hit[]> => {
      const q = encodeURIComponent(text);
      const [runs, threads] = await Promise.all([
        some<Run>(`/api/projects/${project}/agent-runs?limit=8&q=${q}`),
        some<Thread>(`/api/projects/${project}/threads?limit=6&q=${q}`),
      ]);
      return [
        ...threads.map((t) => ({
          path: `/threads/${encodeURIComponent(t.conversationId)}`, title: t.title ?? t.threadId, about: ["thread", t.agent, others && t.user].filter(Boolean).join(" · "),
        })),
        ...runs.map((r) => ({ path: runPath(r), title: opening(r.inputQuery) || brief(r.id), about: [`run of ${r.workflowId}`, others && r.user].filter(Boolean).join(" · "), run: r })),
      ];
    },
  });
}

const patience = 20; // pages

// Some items of a list. A page may be empty although later ones are not.
async function some<T>(path: string): Promise<T[]> {
  let cursor: string | null = "";
  for (let page = 0; cursor !== null && page < patience; page++) {
    const got: { items: T[]; nextCursor: string | null } = await ask(cursor ? `${path}&cursor=${encodeURIComponent(cursor)}` : path);
    if (got.items.length > 0) return got.items;
    cursor = got.nextCursor;
  }
  return [];
}

// useSettled returns a value after it has not changed for a moment.
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 180);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
