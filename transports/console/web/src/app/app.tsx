import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { Route, Router, Switch, useLocation } from "wouter";
import { onRefused } from "../api/client";
import { lost, missing, Problem, say } from "../api/problem";
import { who } from "../api/queries";
import { session } from "../api/session";
import { Socket } from "../api/socket";
import type { Me } from "../api/types";
import { Empty, Loading } from "../ui/basics";
import { Toasts } from "../ui/toast";
import { useName, useProjectName } from "./address";
import { Boundary, FailedPage } from "./boundary";
import { AppContext } from "./context";
import { Keyboard } from "./keys";
import { part } from "./part";
import { Shell } from "./shell";
import { SignIn } from "./signin";

const loading = () => <div className="page"><Loading /></div>;
const Overview = part(() => import("../pages/overview/overview"), loading);
const Runs = part(() => import("../pages/runs/runs"), loading);
const OneRun = part(() => import("../pages/run/run"), loading);
const Threads = part(() => import("../pages/threads/threads"), loading);
const Playground = part(() => import("../pages/playground/playground"), loading);
const Offers = part(() => import("../pages/agents/agents"), loading);
const Waiting = part(() => import("../pages/waiting/waiting"), loading);
const Compare = part(() => import("../pages/compare/compare"), loading);
const Admin = part(() => import("../pages/admin/admin"), loading);

// The page of the address is loaded while the server is asked who the caller is.
const [section = "", name] = location.pathname.replace(/^\/p\/[^/]+/, "").split("/").slice(1);
const sections: Record<string, { begin: () => Promise<void> }> = {
  "": Overview, runs: name ? OneRun : Runs, threads: Threads, playground: Playground, agents: Offers, waiting: Waiting, compare: Compare, admin: Admin,
};
void sections[section]?.begin();

// The caller on a server without accounts.
const local: Me = {
  user: "local", projectId: "default", projects: ["default"], role: "admin", authentication: "none", expiresAt: null, version: "", currency: null,
};

/** App is the console: the sign-in page if the server needs a credential, otherwise the pages. */
export function App() {
  const queries = useQueryClient();
  const [wrong, setWrong] = useState(""); // why the last credential was refused
  const me = useQuery({
    queryKey: ["me"],
    queryFn: () => who().catch((error: unknown) => (missing(error) ? local : Promise.reject(error))),
    retry: (_, error) => lost(error),
    retryDelay: 1_000,
    staleTime: 60_000,
  });
  useEffect(
    () => {
      const off = onRefused((why) => {
        if (!session.credential) return; // a request without one, whose refusal says less
        session.set("");
        setWrong(queries.getQueryData(["me"]) === undefined && why ? why : "Your key or token was revoked or has expired.");
        void queries.resetQueries({ queryKey: ["me"] });
      });
      return () => void off();
    },
    [queries],
  );
  if (me.error instanceof Problem && me.error.status === 401) {
    const retry = () => {
      setWrong("");
      queries.clear();
      void me.refetch();
    };
    return <SignIn wrong={wrong} retry={retry} />;
  }
  if (me.error) return <Empty title="The console cannot start">{say(me.error)}</Empty>;
  if (!me.data) {
    return (
      <main className="page">
        {me.failureCount > 0 ? <Empty title="The server cannot be reached">The console continues as soon as the server answers.</Empty> : <Loading />}
      </main>
    );
  }
  return <Project me={me.data} />;
}

// Pages of other projects are below /p/{project}.
function Project({ me }: { me: Me }) {
  const { named, base } = useProjectName();
  const project = named || me.projectId;
  const [socket, setSocket] = useState<Socket | null>(null);
  useEffect(() => {
    const opened = new Socket(project);
    setSocket(opened);
    return () => opened.close();
  }, [project]);
  const context = useMemo(() => (socket ? { me, project, socket, base } : null), [me, project, socket, base]);
  if (!context) return null;
  return (
    <AppContext value={context}>
      <Router base={base} key={base}>
        <Keyboard>
          <Shell>
            <Pages />
          </Shell>
        </Keyboard>
        <Toasts />
      </Router>
    </AppContext>
  );
}

function Pages() {
  const [path] = useLocation();
  const run = useName("runs");
  return (
    <Boundary at={path} failed={(error, again) => <FailedPage error={error} again={again} />}>
      <Switch>
        <Route path="/" component={Overview} />
        <Route path="/runs" component={Runs} />
        <Route path="/runs/:runId"><OneRun key={run} runId={run} /></Route>
        <Route path="/compare" component={Compare} />
        <Route path="/threads/*?" component={Threads} />
        <Route path="/playground/*?" component={Playground} />
        <Route path="/agents/*?" component={Offers} />
        <Route path="/waiting" component={Waiting} />
        <Route path="/admin/*?" component={Admin} />
        <Route>
          <div className="page">
            <Empty title="Page not found">The address may be incomplete. Use the menu to find the page.</Empty>
          </div>
        </Route>
      </Switch>
    </Boundary>
  );
}
