import { CopyIcon } from "../../ui/basics";
import { asCurl, asTypeScript, envelope, said } from "./request";
import type { Setup, Worker } from "./setup";

/** RequestTab is the next message as a request, for a terminal and for a program. */
export function RequestTab({ setup, worker, threadId }: { setup: Setup; worker: Worker; threadId: string }) {
  const request = said(envelope(setup, worker, threadId), setup.text || "hello", []);
  return (
    <div className="stack">
      <Code title="curl" text={asCurl(request)} />
      <Code title="TypeScript, with @ag-ui/client" text={asTypeScript(request, worker)} />
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
