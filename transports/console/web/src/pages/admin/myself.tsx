import { useMe, useProject } from "../../app/context";
import { Panel } from "../../ui/basics";
import { exactly } from "../../ui/format";
import { Facts } from "./facts";

const ways = { none: "none: everybody is the only user", "api-key": "API keys", jwt: "JSON Web Tokens", custom: "the program’s own" };

/** Myself is who the server takes the caller for. */
export function Myself() {
  const me = useMe();
  const project = useProject();
  return (
    <Panel>
      <Facts
        facts={[
          ["User", me.user],
          ["Role", me.authentication === "none" ? "no accounts: all is yours" : me.role],
          ["Project", project],
          ["Your projects", me.projects.join(", ")],
          ["Accounts", ways[me.authentication]],
          ["Your credential ends", me.expiresAt ? exactly(me.expiresAt) : "never"],
          ["Version", me.version],
        ]}
      />
    </Panel>
  );
}
