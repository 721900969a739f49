import { useSyncExternalStore } from "react";

export type Theme = "auto" | "light" | "dark";

const key = "baton.theme";
const dense = "baton.density";

/** theme returns the chosen theme, by default the system's. */
export function theme(): Theme {
  const kept = localStorage.getItem(key);
  return kept === "light" || kept === "dark" ? kept : "auto";
}

/** setTheme chooses a theme for this browser. */
export function setTheme(next: Theme) {
  if (next === "auto") localStorage.removeItem(key);
  else localStorage.setItem(key, next);
  applyTheme();
}

const compact = () => localStorage.getItem(dense) === "compact";
const watchers = new Set<() => void>(); // of compact

/** useCompact reports whether this browser shows lists with low rows, and follows changes. */
export function useCompact(): boolean {
  return useSyncExternalStore((changed) => {
    watchers.add(changed);
    return () => watchers.delete(changed);
  }, compact);
}

/** setCompact chooses the height of rows for this browser. */
export function setCompact(next: boolean) {
  if (next) localStorage.setItem(dense, "compact");
  else localStorage.removeItem(dense);
  applyTheme();
  for (const changed of watchers) changed();
}

/** applyTheme applies the chosen theme and density to the page. */
export function applyTheme() {
  const { dataset } = document.documentElement;
  const chosen = theme();
  if (chosen === "auto") delete dataset.theme;
  else dataset.theme = chosen;
  if (compact()) dataset.density = "compact";
  else delete dataset.density;
}
