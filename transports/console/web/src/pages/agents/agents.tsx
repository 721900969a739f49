import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { useSearch } from "../../app/address";
import { useOffers, useWorkflows } from "../../api/queries";
import type { Agent, Tool, Workflow } from "../../api/types";
import { useMay } from "../../app/context";
import { part } from "../../app/part";
import { useTitle } from "../../app/title";
import { Empty, Failure, Loading, Panel } from "../../ui/basics";
import { JsonTree } from "../../ui/json";
import { Tabs } from "../../ui/tabs";
import { ownFirst, Source, State } from "./origin";
import { Try } from "./try";
import "./agents.css";

const WorkflowGraph = part(() => import("../../ui/workflow-graph"), () => <Loading />);

/** The page Agents: all agents, tools, workflows and MCP servers, with their origins. */
export default function Page() {
  useTitle("Agents");
  const [path, go] = useLocation();
  const tab = new URLSearchParams(useSearch()).get("tab") ?? "agents";
  const offers = useOffers();
  const workflows = useWorkflows().data?.workflows ?? [];
  const { agents = [], tools = [], servers = [] } = offers.data ?? {};
  const choose = (id: string) => go(`${path}?tab=${id}`, { replace: true });
  return (
    <div className="page">
      <header className="page-head">
        <h1>Agents, tools, workflows</h1>
      </header>
      {offers.error && !offers.data && <Failure error={offers.error} retry={() => void offers.refetch()} />}
      {!offers.data && !offers.error && <Loading />}
      {offers.data && (
        <section>
          <Tabs
            label="Kind" chosen={tab} choose={choose}
            tabs={[
              { id: "agents", name: "Agents", count: agents.length },
              { id: "tools", name: "Tools", count: tools.length },
              { id: "workflows", name: "Workflows", count: workflows.length },
              { id: "servers", name: "Servers", count: servers.length },
            ]}
          >
            <div className="offers" data-wide={tab === "workflows"}>
              {tab === "agents" && ownFirst(agents).map((a) => <OneAgent key={a.name} agent={a} />)}
              {tab === "tools" && ownFirst(tools).map((t) => <OneTool key={t.name} tool={t} />)}
              {tab === "workflows" && ownFirst(workflows).map((w) => <OneWorkflow key={w.name} workflow={w} />)}
              {tab === "servers" && servers.map((s) => (
                <Offer key={s.name} offer={s}>
                  <p className="muted">{s.tools === 1 ? "One tool." : `${s.tools} tools.`}</p>
                </Offer>
              ))}
            </div>
            {tab === "servers" && servers.length === 0 && <Empty title="No MCP servers">Declare them in the section mcp of baton.yaml.</Empty>}
          </Tabs>
        </section>
      )}
    </div>
  );
}

interface Named {
  name: string;
  description: string;
  origin?: Agent["origin"];
  health?: Agent["health"];
}

function Offer({ offer, actions, marks, children }: { offer: Named; actions?: ReactNode; marks?: ReactNode; children?: ReactNode }) {
  return (
    <Panel title={<span className="mono wrap">{offer.name}</span>} actions={actions}>
      <div className="stack">
        {offer.description && <p className="wrap">{offer.description}</p>}
        <p className="row wraps">
          <Source origin={offer.origin} />
          <State health={offer.health} />
          {marks}
        </p>
        {children}
      </div>
    </Panel>
  );
}

function OneAgent({ agent }: { agent: Agent }) {
  return (
    <Offer
      offer={agent}
      actions={
        <Link href={`/playground?agent=${encodeURIComponent(agent.name)}`} className="button small">
          Talk to it
        </Link>
      }
    >
      {agent.model && (
        <p className="muted">
          Model <span className="mono">{[agent.model.provider, agent.model.name].filter(Boolean).join(" / ")}</span>
        </p>
      )}
      {agent.tools && agent.tools.length > 0 && (
        <p className="muted">
          May call <span className="mono wrap">{agent.tools.join(", ")}</span>
        </p>
      )}
    </Offer>
  );
}

function OneTool({ tool }: { tool: Tool }) {
  const may = useMay("operator");
  return (
    <Offer
      offer={tool}
      marks={
        <>
          {tool.approval && <span className="badge" data-tone="wait">Asks first</span>}
          {tool.idempotent && <span className="badge">Idempotent</span>}
        </>
      }
    >
      {tool.parameters && (
        <details>
          <summary>Arguments schema</summary>
          <JsonTree value={tool.parameters} depth={3} />
        </details>
      )}
      {may && <Try tool={tool} />}
    </Offer>
  );
}

function OneWorkflow({ workflow }: { workflow: Workflow }) {
  return (
    <Offer
      offer={workflow}
      actions={
        <Link href={`/playground?workflow=${encodeURIComponent(workflow.name)}`} className="button small">
          Run it
        </Link>
      }
    >
      <WorkflowGraph workflow={workflow} />
    </Offer>
  );
}
