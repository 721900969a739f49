// The credential of this tab. It is only in sessionStorage, never in another tab or a URL.
const key = "baton.credential";

let credential = sessionStorage.getItem(key) ?? "";
const listeners = new Set<() => void>();

export const session = {
  get credential() {
    return credential;
  },

  /** The authorization header of requests, null without a credential. */
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
