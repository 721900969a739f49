// The credential of this tab: in sessionStorage alone, which no other tab and no URL ever sees.
const key = "baton.credential";

let credential = sessionStorage.getItem(key) ?? "";
const listeners = new Set<() => void>();

export const session = {
  get credential() {
    return credential;
  },

  /** The header that requests carry, null while there is no credential. */
  get authorization() {
    return credential ? `Bearer ${credential}` : null;
  },

  set(next: string) {
    credential = next.trim();
    if (credential) sessionStorage.setItem(key, credential);
    else sessionStorage.removeItem(key);
    for (const tell of listeners) tell();
  },

  subscribe(tell: () => void) {
    listeners.add(tell);
    return () => listeners.delete(tell);
  },
};
