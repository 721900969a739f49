import { useMe, useProject } from "../../app/context";
import { Panel } from "../../ui/basics";
import { exactly } from "../../ui/format";
import { Facts } from "./facts";

const ways = { none: "off", "api-key": "API keys", jwt: "JSON Web Tokens", custom: "custom" };

/** Myself is the caller's identity. */
export function Myself() {
  const me = useMe();
  const project = useProject();
  return (
    <Panel>
      <Facts
        facts={[
          ["User", me.user],
          ["Role", me.authentication === "none" ? "all permissions" : me.role],
          ["Project", project],
          ["Your projects", me.projects.join(", ")],
          ["Authentication", ways[me.authentication]],
          ["Credential expires", me.expiresAt ? exactly(me.expiresAt) : "never"],
          ["Version", me.version],
        ]}
      />
    </Panel>
  );
}
