import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { ask } from "../../api/client";
import { useOffers, useWorkflows } from "../../api/queries";
import type { Run } from "../../api/types";
import { useProject } from "../../app/context";
import { CopyIcon, Panel } from "../../ui/basics";
import * as icons from "../../ui/icons";
import { command } from "../run/curl";

/** useFresh reports whether the project has no runs; undefined until that is known. */
export function useFresh(): boolean | undefined {
  const project = useProject();
  const { data } = useQuery({
    queryKey: ["runs", project, "any"],
    queryFn: () => ask<{ items: Run[] }>(`/api/projects/${encodeURIComponent(project)}/agent-runs?limit=1`),
  });
  return data && data.items.length === 0;
}

/** Begin suggests first steps in a project without runs. */
export function Begin() {
  const agents = useOffers().data?.agents ?? [];
  const workflows = useWorkflows().data?.workflows ?? [];
  const agent = agents.find((a) => a.name === "echo") ?? agents[0];
  const script = agents.find((a) => a.name === "scripted");
  const workflow = workflows.find((w) => w.name === "demo") ?? workflows[0];
  const curl = agent && command("/api/v1/agent/runs", `-H 'Content-Type: application/json' -d '${JSON.stringify({ agent: agent.name, content: "Hello" })}'`);
  return (
    <Panel title="No runs yet: start here">
      <ul className="begin">
        {agent && (
          <Way to={`/playground?agent=${encodeURIComponent(agent.name)}`} icon={<icons.Threads />} title={`Talk to ${agent.name}`}>
            {agent.description}
          </Way>
        )}
        {workflow && (
          <Way to={`/playground?workflow=${encodeURIComponent(workflow.name)}`} icon={<icons.Runs />} title={`Run the workflow ${workflow.name}`}>
            {workflow.description}
          </Way>
        )}
        {script && (
          <Way to="/playground?agent=scripted" icon={<icons.Tool />} title="See tools, questions and failures">
            The agent scripted executes a script that you write: it calls tools, asks questions and fails.
          </Way>
        )}
        <Way to="/agents" icon={<icons.Offers />} title="Browse the plugins">
          Agents, tools and workflows, with their schemas.
        </Way>
      </ul>
      {curl && (
        <div className="begin-code">
          <div className="row">
            <span className="grow muted">Or use a terminal</span>
            <CopyIcon label="Copy the command" text={curl} />
          </div>
          <pre className="code wraps" tabIndex={0}>
            {curl}
          </pre>
        </div>
      )}
    </Panel>
  );
}

function Way({ to, icon, title, children }: { to: string; icon: React.ReactNode; title: string; children: React.ReactNode }) {
  return (
    <li>
      <Link href={to}>
        {icon}
        <span>
          <strong>{title}</strong>
          <span className="muted">{children}</span>
        </span>
      </Link>
    </li>
  );
}
