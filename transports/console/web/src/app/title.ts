import { useEffect } from "react";

/** useTitle sets the title of the page, what is most specific first. Without a part it leaves the title as it is. */
export function useTitle(...parts: string[]) {
  const title = parts.filter(Boolean).map((p) => p.slice(0, 80)).join(" · ");
  useEffect(() => {
    if (title) document.title = `${title} · Baton`;
  }, [title]);
}
