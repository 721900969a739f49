import { runURL } from "../../api/queries";
import { session } from "../../api/session";
import type { Run } from "../../api/types";
import { useProject } from "../../app/context";
import type { RunLog } from "../../log/runlog";
import { CopyIcon } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { again, inputOf } from "./input-of";

const most = 4_000; // characters of a command that are shown; copying copies all

/** Curl is the page's requests for a terminal. The credential is a variable, so that it is not on the screen. */
export function Curl({ run, log, onClose }: { run: Run; log: RunLog; onClose: () => void }) {
  const project = useProject();
  const thread = encodeURIComponent(run.conversationId);
  const query = `?projectId=${encodeURIComponent(project)}`;
  const json = "-H 'Content-Type: application/json'";
  const same = { ...again(run, inputOf(log)), projectId: project };
  const commands: [string, string][] = [
    ["The run", command(runURL(project, run))],
    ["Its steps", command(runURL(project, run, "/steps"))],
    ["The states of its nodes", command(runURL(project, run, "/node-states"))],
    ["Its events, in pages", command(`/api/v1/conversations/${thread}/agent-runs/${encodeURIComponent(run.id)}/events${query}`)],
    ["Its thread, live", command(`/api/v1/agent/runs/${thread}/events${query}`, "-N")],
    ["The same again", command("/api/v1/agent/runs", `${json} -d ${quoted(JSON.stringify(same))}`)],
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
              {text.length > most ? `${text.slice(0, most)}…` : text}
            </pre>
          </div>
        ))}
      </div>
    </Dialog>
  );
}

/** command returns a request as a curl command. */
export function command(path: string, options = ""): string {
  const credential = session.authorization ? `-H "Authorization: Bearer $BATON_TOKEN"` : "";
  return ["curl", options, credential, quoted(location.origin + path)].filter(Boolean).join(" ");
}

/** quoted returns a text quoted for a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
