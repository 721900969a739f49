import { useEffect, useState, type ComponentType, type ReactNode } from "react";

const most = 4_000; // ms between two attempts to reach the server

/**
 * part returns a component that is loaded when it is first shown, or before with begin. Until then it shows what wait returns: React's lazy
 * would show that for at least 300 ms.
 */
export function part<P extends object>(load: () => Promise<{ default: ComponentType<P> }>, wait: (props: P) => ReactNode) {
  let loaded: ComponentType<P> | undefined;
  const begin = async () => {
    loaded ??= (await patiently(load)).default;
  };
  function Part(props: P) {
    const [Loaded, show] = useState(() => loaded);
    useEffect(() => {
      if (!Loaded) void begin().then(() => show(() => loaded));
    }, [Loaded]);
    return Loaded ? <Loaded {...props} /> : wait(props);
  }
  return Object.assign(Part, { begin });
}

// Loads a part, again until the server answers. If an update has removed the part, it reloads the page.
async function patiently<T>(load: () => Promise<T>): Promise<T> {
  return load().catch(async () => {
    await answers();
    return load().catch(() => {
      location.reload();
      return new Promise<never>(() => {}); // the page reloads
    });
  });
}

async function answers() {
  for (let failures = 0; !(await ready()); failures++) {
    await new Promise((done) => setTimeout(done, Math.min(most, 250 * 2 ** failures)));
  }
}

const ready = () => fetch("/readyz").then((r) => r.ok, () => false);
