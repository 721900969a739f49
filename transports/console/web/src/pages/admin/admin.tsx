import { useLocation } from "wouter";
import { useSearch } from "../../app/address";
import { useMay, useMe } from "../../app/context";
import { useTitle } from "../../app/title";
import { Tabs } from "../../ui/tabs";
import "./admin.css";
import { Audit } from "./audit";
import { Keys } from "./keys";
import { Limits } from "./limits";
import { Myself } from "./myself";
import { Retention } from "./retention";
import { Servers } from "./servers";

/** The page Admin: the caller, and the project's rules that the caller may see and change. */
export default function Page() {
  useTitle("Admin");
  const [path, go] = useLocation();
  const me = useMe();
  const accounts = me.authentication !== "none";
  const admin = useMay("admin");
  const viewer = useMay("viewer");
  const tabs = [
    { id: "me", name: "You" },
    { id: "limits", name: "Limits" },
    ...(viewer ? [{ id: "retention", name: "Retention" }] : []),
    ...(admin ? [{ id: "servers", name: "Servers" }] : []),
    ...(admin && me.authentication === "api-key" ? [{ id: "keys", name: "Keys" }] : []),
    ...(admin && accounts ? [{ id: "audit", name: "Audit" }] : []),
  ];
  const asked = new URLSearchParams(useSearch()).get("tab");
  const tab = tabs.find((t) => t.id === asked)?.id ?? "me";
  return (
    <div className="page">
      <header className="page-head">
        <h1>Admin</h1>
      </header>
      <section>
        <Tabs label="Admin sections" tabs={tabs} chosen={tab} choose={(id) => go(`${path}?tab=${id}`, { replace: true })}>
          {tab === "me" && <Myself />}
          {tab === "limits" && <Limits />}
          {tab === "retention" && <Retention />}
          {tab === "servers" && <Servers />}
          {tab === "keys" && <Keys />}
          {tab === "audit" && <Audit />}
        </Tabs>
      </section>
    </div>
  );
}
