// The credential of this tab, never in a URL. It is in sessionStorage, and in localStorage if the user wants the other tabs of the browser to have it.
const key = "baton.credential";

let credential = sessionStorage.getItem(key) ?? localStorage.getItem(key) ?? "";
const listeners = new Set<() => void>();

export const session = {
  get credential() {
    return credential;
  },

  /** The authorization header of requests, null without a credential. */
  get authorization() {
    return credential ? `Bearer ${credential}` : null;
  },

  /** set changes the credential. everywhere stores it for all tabs; without a credential all tabs lose the stored one. */
  set(next: string, everywhere = false) {
    if (everywhere || localStorage.getItem(key) === credential) localStorage.removeItem(key);
    credential = next.trim();
    if (credential) sessionStorage.setItem(key, credential);
    else sessionStorage.removeItem(key);
    if (credential && everywhere) localStorage.setItem(key, credential);
    for (const tell of listeners) tell();
  },

  subscribe(tell: () => void) {
    listeners.add(tell);
    return () => listeners.delete(tell);
  },
};
