import { useLocation } from "wouter";
import { usePathname, useSearch as useRawSearch } from "wouter/use-browser-location";

// The router decodes a part of the address itself. Decoding it again would misread a % in a name, so these read the raw address.

/** useName returns the name at the end of a page's address, as in /runs/{name}, "" for none. */
export function useName(section: string): string {
  return decoded(new RegExp(`^(?:/p/[^/]+)?/${section}/([^/]+)`).exec(usePathname())?.[1] ?? "");
}

/** useProjectName returns the project in the address, and the prefix of its pages: "" for the caller's default project. */
export function useProjectName(): { named: string; base: string } {
  const name = /^\/p\/([^/]+)/.exec(usePathname())?.[1] ?? "";
  return { named: decoded(name), base: name && `/p/${name}` };
}

/** useSearch returns the query of the address. */
export const useSearch = () => useRawSearch().slice(1);

/** useSetSearch replaces the query of the address. */
export function useSetSearch(): (query: URLSearchParams) => void {
  const [, go] = useLocation();
  return (query) => go(`~${location.pathname}${query.size > 0 ? `?${query}` : ""}`, { replace: true });
}

// A name that is not encoded stays as it is.
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
