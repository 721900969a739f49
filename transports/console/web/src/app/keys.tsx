import { createContext, use, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { Dialog } from "../ui/dialog";

/** Keys are the keyboard shortcuts of a page: "j", "Enter", or two keys in a row as in "g r". */
export type Keys = Record<string, { does: string; run: () => void }>;

interface Registered {
  title: string;
  keys: Keys;
}

const Registry = createContext<Set<{ current: Registered }> | null>(null);

/** useKeys adds shortcuts while the component is mounted. The last component with a key gets it. */
export function useKeys(title: string, keys: Keys) {
  const registry = use(Registry);
  const mine = useRef<Registered>({ title, keys });
  mine.current = { title, keys };
  useEffect(() => {
    registry?.add(mine);
    return () => void registry?.delete(mine);
  }, [registry]);
}

/** KeyboardHelp handles the shortcuts, and lists them at "?". */
export function Keyboard({ children }: { children: ReactNode }) {
  const registry = useMemo(() => new Set<{ current: Registered }>(), []);
  const [help, setHelp] = useState<Registered[] | null>(null);
  useEffect(() => {
    let first = ""; // first key of two
    let timer: ReturnType<typeof setTimeout> | undefined;
    const press = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || typing(e) || document.querySelector("dialog[open]")) return;
      const all = [...registry].map((r) => r.current);
      if (e.key === "?") {
        setHelp(all);
        e.preventDefault();
        return;
      }
      const name = first ? `${first} ${e.key}` : e.key;
      const action = all.findLast((r) => r.keys[name])?.keys[name];
      const prefix = !first && all.some((r) => Object.keys(r.keys).some((k) => k.startsWith(`${e.key} `)));
      first = prefix ? e.key : "";
      clearTimeout(timer);
      if (prefix) timer = setTimeout(() => (first = ""), 1_200);
      if (!action || (e.key === "Enter" && pressable(e.target))) return;
      e.preventDefault();
      action.run();
    };
    addEventListener("keydown", press);
    return () => {
      removeEventListener("keydown", press);
      clearTimeout(timer);
    };
  }, [registry]);
  return (
    <Registry value={registry}>
      {children}
      {help && <Help list={help} onClose={() => setHelp(null)} />}
    </Registry>
  );
}

function Help({ list, onClose }: { list: Registered[]; onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <div className="stack">
        {list.map(({ title, keys }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl className="keys">
              {Object.entries(keys).map(([name, { does }]) => (
                <div key={name} className="row">
                  <dt>
                    {name.split(" ").map((k) => (
                      <kbd key={k}>{k}</kbd>
                    ))}
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}

// Shortcuts do not apply while the user types, even in an editor's shadow root.
function typing(e: KeyboardEvent) {
  const target = e.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox");
}

function pressable(target: EventTarget | null) {
  return target instanceof HTMLElement && target.closest("a,button,summary,[role=tab]") !== null;
}
