export type Theme = "auto" | "light" | "dark";

const key = "baton.theme";

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

/** applyTheme applies the chosen theme to the page. */
export function applyTheme() {
  const chosen = theme();
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
