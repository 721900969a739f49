import { useEffect, useId, useRef, type KeyboardEvent, type ReactNode } from "react";

export interface Tab {
  id: string;
  name: string;
  count?: ReactNode;
}

/** Tabs are the parts of a page, one of which is shown: children. Arrow keys move between them. */
export function Tabs({ tabs, chosen, choose, label, children }: {
  tabs: Tab[];
  chosen: string;
  choose: (id: string) => void;
  label: string;
  children: ReactNode;
}) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const lengths = tabs.map((t) => `${t.name}${t.count ?? ""}`.length).join();
  useEffect(() => {
    const row = list.current;
    const tab = row?.querySelector<HTMLElement>("[aria-selected=true]");
    if (!row || !tab) return;
    const left = tab.offsetLeft - row.offsetLeft;
    if (left < row.scrollLeft) row.scrollLeft = left; // on a phone it may be scrolled out of view
    else row.scrollLeft = Math.max(row.scrollLeft, left + tab.offsetWidth - row.clientWidth);
  }, [chosen, lengths]);
  const walk = (e: KeyboardEvent<HTMLDivElement>) => {
    const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const at = tabs.findIndex((t) => t.id === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    e.preventDefault();
    choose(next.id);
    document.getElementById(`${id}-${next.id}`)?.focus();
  };
  return (
    <>
      <div ref={list} className="tabs" role="tablist" aria-label={label} onKeyDown={walk}>
        {tabs.map((t) => (
          <button
            key={t.id}
            type="button"
            role="tab"
            id={`${id}-${t.id}`}
            aria-selected={t.id === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={t.id === chosen ? 0 : -1}
            onClick={() => choose(t.id)}
          >
            {t.name}
            {t.count !== undefined && <span className="count">{t.count}</span>}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`} className="tab-panel">
        {children}
      </div>
    </>
  );
}
