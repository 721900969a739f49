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

// Loads a part, again until the server answers. If the server has another build by then, which may lack the part, it reloads the page.
async function patiently<T>(load: () => Promise<T>): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await load();
    } catch {
      if (await updated()) {
        location.reload();
        return new Promise<never>(() => {}); // the page reloads
      }
      await new Promise((done) => setTimeout(done, Math.min(most, 250 * 2 ** failures)));
    }
  }
}

// The first script of the page, whose name has the hash of the build.
const script = () => new URL(document.querySelector<HTMLScriptElement>("script[type=module][src]")!.src).pathname;

const updated = async () => {
  try {
    const response = await fetch("/", { cache: "no-store" });
    return response.ok && !(await response.text()).includes(script());
  } catch {
    return false; // no server answers
  }
};
