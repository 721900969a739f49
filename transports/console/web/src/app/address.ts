import { useLocation } from "wouter";
import { usePathname, useSearch as useRawSearch } from "wouter/use-browser-location";

// The router decodes a part of an address by itself: who decodes the rest takes the % of a name for a code. These read the address as it stands.

/** useName is the name that a page's address ends with, as in /runs/{name}: "" for none. */
export function useName(section: string): string {
  return decoded(new RegExp(`^(?:/p/[^/]+)?/${section}/([^/]+)`).exec(usePathname())?.[1] ?? "");
}

/** useProjectName is the project that the address names, and where its pages begin: "" for the caller's own. */
export function useProjectName(): { named: string; base: string } {
  const name = /^\/p\/([^/]+)/.exec(usePathname())?.[1] ?? "";
  return { named: decoded(name), base: name && `/p/${name}` };
}

/** useSearch is what stands behind the address's question mark. */
export const useSearch = () => useRawSearch().slice(1);

/** useSetSearch changes what stands behind the address's question mark, and nothing else. */
export function useSetSearch(): (query: URLSearchParams) => void {
  const [, go] = useLocation();
  return (query) => go(`~${location.pathname}${query.size > 0 ? `?${query}` : ""}`, { replace: true });
}

// A name that nobody has encoded is itself.
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
