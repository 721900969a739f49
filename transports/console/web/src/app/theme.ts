export type Theme = "auto" | "light" | "dark";

const key = "baton.theme";

/** theme is what was chosen here before: the system's unless something else was. */
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

/** applyTheme shows the page in the chosen theme. */
export function applyTheme() {
  const chosen = theme();
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
