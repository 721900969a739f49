import { useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { useWaiting } from "../api/queries";
import { session } from "../api/session";
import * as icons from "../ui/icons";
import { useMe, useProject, useSocket } from "./context";
import { useKeys } from "./keys";
import { useLive } from "./live";
import { Search } from "./search";
import { setCompact, setTheme, theme, useCompact, type Theme } from "./theme";

const sections = [
  { path: "/", name: "Overview", key: "g o", icon: icons.Overview },
  { path: "/runs", name: "Runs", key: "g r", icon: icons.Runs },
  { path: "/threads", name: "Threads", key: "g t", icon: icons.Threads },
  { path: "/playground", name: "Playground", key: "g p", icon: icons.Playground },
  { path: "/agents", name: "Agents", key: "g a", icon: icons.Offers },
  { path: "/waiting", name: "Waiting", key: "g w", icon: icons.Waiting },
  { path: "/admin", name: "Admin", key: "g m", icon: icons.Admin },
];

/** Shell is the frame of every page: the menu, the search, and a notice when the connection is lost. */
export function Shell({ children }: { children: ReactNode }) {
  const [path, go] = useLocation();
  const [menu, setMenu] = useState(false);
  const [searching, setSearching] = useState(false);
  const socket = useSocket();
  const connected = useSyncExternalStore(
    (tell) => {
      const off = socket.watch(tell);
      return () => void off();
    },
    () => socket.connected,
  );
  useLive();
  useEffect(() => setMenu(false), [path]);
  useKeys("Everywhere", {
    "/": { does: "search", run: () => setSearching(true) },
    ...Object.fromEntries(sections.map((s) => [s.key, { does: s.name, run: () => go(s.path) }])),
  });
  return (
    <div className="shell">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="topbar">
        <Link href="/" className="brand">
          <icons.Brand /> Baton
        </Link>
        <button type="button" className="button plain icon" aria-label="Search" onClick={() => setSearching(true)}>
          <icons.Search />
        </button>
        <button type="button" className="button plain icon" aria-label="Menu" aria-expanded={menu} onClick={() => setMenu(!menu)}>
          {menu ? <icons.Close /> : <icons.Menu />}
        </button>
      </header>
      <Nav open={menu} path={path} search={() => setSearching(true)} />
      <main className="main" id="content" tabIndex={-1}>
        {!connected && (
          <div className="offline" role="status">
            The server cannot be reached. This page continues as soon as the server answers.
          </div>
        )}
        {children}
      </main>
      {searching && <Search onClose={() => setSearching(false)} />}
    </div>
  );
}

function Nav({ open, path, search }: { open: boolean; path: string; search: () => void }) {
  const waiting = useWaiting().data;
  return (
    <nav className="nav" data-open={open} aria-label="Pages">
      <Link href="/" className="brand">
        <icons.Brand /> Baton
      </Link>
      {sections.map(({ path: to, name, icon: Icon }) => (
        <Link key={to} href={to} className="item" aria-current={(to === "/" ? path === "/" : path.startsWith(to)) ? "page" : undefined}>
          <Icon /> {name}
          {to === "/waiting" && waiting && waiting.items.length > 0 && (
            <span className="tally" aria-label={`${waiting.items.length} open`}>
              {waiting.items.length}
              {waiting.nextCursor && "+"}
            </span>
          )}
        </Link>
      ))}
      <div className="foot">
        <button type="button" className="button small search" onClick={search}>
          <icons.Search /> Search <kbd>/</kbd>
        </button>
        <Account />
        <ThemeChoice />
      </div>
    </nav>
  );
}

function Account() {
  const me = useMe();
  const project = useProject();
  const choose = (next: string) => location.assign(next === me.projectId ? "/" : `/p/${encodeURIComponent(next)}/`);
  return (
    <>
      {me.projects.length > 1 ? (
        <select className="input small" aria-label="Project" value={project} onChange={(e) => choose(e.target.value)}>
          {[...new Set([...me.projects, project])].map((p) => (
            <option key={p}>{p}</option>
          ))}
        </select>
      ) : (
        <span className="wrap">project {project}</span>
      )}
      {me.authentication !== "none" && (
        <span className="row wraps">
          <span className="grow wrap">
            {me.user} · {me.role}
          </span>
          {session.credential && (
            <button type="button" className="button plain small" onClick={signOut}>
              Sign out
            </button>
          )}
        </span>
      )}
    </>
  );
}

// Reloads the page, so that the next user finds no data of this one.
function signOut() {
  session.set("");
  location.assign("/");
}

const themes: { id: Theme; name: string; icon: () => ReactNode }[] = [
  { id: "auto", name: "System theme", icon: icons.Auto },
  { id: "light", name: "Light theme", icon: icons.Sun },
  { id: "dark", name: "Dark theme", icon: icons.Moon },
];

function ThemeChoice() {
  const [chosen, setChosen] = useState(theme);
  const low = useCompact();
  return (
    <div className="row" role="group" aria-label="Appearance">
      {themes.map(({ id, name, icon: Icon }) => (
        <button
          key={id} type="button" className="button plain icon small" title={name} aria-label={name} aria-pressed={chosen === id}
          onClick={() => {
            setTheme(id);
            setChosen(id);
          }}
        >
          <Icon />
        </button>
      ))}
      <button
        type="button" className="button plain icon small" title="Compact rows" aria-label="Compact rows" aria-pressed={low}
        onClick={() => setCompact(!low)}
      >
        <icons.Rows />
      </button>
    </div>
  );
}
