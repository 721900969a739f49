import type { Attachment } from "../../api/types";
import { useMe, useProject } from "../../app/context";
import { CopyIcon } from "../../ui/basics";
import { asCurl, asTypeScript, envelope, said } from "./request";
import type { Setup, Worker } from "./setup";

interface Props {
  setup: Setup;
  worker: Worker;
  threadId: string;
  files: Attachment[];
}

/** RequestTab shows the next message as a request, for a terminal and as code. */
export function RequestTab({ setup, worker, threadId, files }: Props) {
  const project = useProject();
  const other = project === useMe().projectId ? undefined : project; // the default project need not be named
  const request = said(envelope(setup, worker, threadId), setup.text || "hello", files);
  return (
    <div className="stack">
      <Code title="curl" text={asCurl(request, other)} />
      <Code title="TypeScript, with @ag-ui/client" text={asTypeScript(request, worker, other)} />
    </div>
  );
}

function Code({ title, text }: { title: string; text: string }) {
  return (
    <section>
      <div className="row">
        <h3 className="grow label">{title}</h3>
        <CopyIcon label={`Copy: ${title}`} text={text} />
      </div>
      <pre className="code wraps" tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </section>
  );
}
