import { runURL } from "../../api/actions";
import { session } from "../../api/session";
import type { Run } from "../../api/types";
import { useProject } from "../../app/context";
import { CopyIcon } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";

const most = 4_000; // characters of what was asked that fit into a command

/** Curl is what the page shows, for a terminal. The credential is a variable: it belongs on no screen. */
export function Curl({ run, onClose }: { run: Run; onClose: () => void }) {
  const project = useProject();
  const thread = encodeURIComponent(run.conversationId);
  const json = "-H 'Content-Type: application/json'";
  const what = run.agent === null ? { workflowId: run.workflowId } : { agent: run.agent };
  const commands: [string, string][] = [
    ["The run", command(runURL(project, run))],
    ["Its steps", command(runURL(project, run, "/steps"))],
    ["The states of its nodes", command(runURL(project, run, "/node-states"))],
    ["Its events, in pages", command(`/api/v1/conversations/${thread}/agent-runs/${encodeURIComponent(run.id)}/events`)],
    ["Its thread, live", command(`/api/v1/agent/runs/${thread}/events`, "-N")],
    ["The same again", command("/api/v1/agent/runs", `${json} -d ${quoted(JSON.stringify({ ...what, content: run.inputQuery.length > most ? "…" : run.inputQuery }))}`)],
    ["Cancel it", command(runURL(project, run, "/cancel"), "-X POST")],
    ["Say more", command(runURL(project, run, "/messages"), `${json} -d ${quoted('{"content":"…"}')}`)],
  ];
  return (
    <Dialog title="In a terminal" onClose={onClose}>
      <div className="stack">
        {commands.map(([name, text]) => (
          <div key={name}>
            <div className="row">
              <span className="grow muted">{name}</span>
              <CopyIcon label={`Copy: ${name}`} text={text} />
            </div>
            <pre className="code wraps" tabIndex={0}>
              {text}
            </pre>
          </div>
        ))}
      </div>
    </Dialog>
  );
}

/** command is a request as curl makes it. */
export function command(path: string, options = ""): string {
  const credential = session.authorization ? `-H "Authorization: Bearer $BATON_TOKEN"` : "";
  return ["curl", options, credential, quoted(location.origin + path)].filter(Boolean).join(" ");
}

/** quoted is a text that a shell takes as it is. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
