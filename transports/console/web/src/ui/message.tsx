import { memo, useState, type ReactNode } from "react";
import { isDigits } from "../api/json";
import { text, type Call, type Entry } from "../log/transcript";
import { CopyIcon } from "./basics";
import { Drawn } from "./drawn";
import { Files } from "./files";
import { clock, duration, exactly, number } from "./format";
import * as icons from "./icons";
import { JsonTree, parsed } from "./json";
import { Markdown, Plain } from "./markdown";
import { Picture } from "./picture";

/** Message shows a message. version changes when the entry has changed in place. */
export const Message = memo(function Message({ entry, version, actions, anchor }: { entry: Entry; version: number; actions?: ReactNode; anchor?: string }) {
  return (
    <Drawn value={entry.message ?? entry} at={version}>
      <Said entry={entry} actions={actions} anchor={anchor} />
    </Drawn>
  );
});

function Said({ entry, actions, anchor }: { entry: Entry; actions?: ReactNode; anchor?: string }) {
  if (entry.role === "reasoning") return <Reasoning entry={entry} />;
  const empty = entry.content === "" && entry.calls.length > 0;
  return (
    <article className="message" data-role={entry.role} id={anchor} aria-label={speaker(entry)}>
      {!empty && (
        <header>
          <span className="who">{speaker(entry)}</span>
          {entry.at !== null && (
            <time className="num muted" dateTime={new Date(entry.at).toISOString()} title={exactly(entry.at)}>
              {clock(entry.at)}
            </time>
          )}
          <span className="tools">
            <CopyIcon label="Copy message" text={() => plainText(entry.content)} />
            {actions}
          </span>
        </header>
      )}
      {!empty && (said(entry) ? <Plain text={String(entry.content)} /> : <Content content={entry.content} grows={entry.open} />)}
      <Files message={entry.message} />
      {entry.open && <span className="caret" aria-label="is being written" role="img" />}
      {entry.cut && <p className="muted">Cut off because the server stopped. The run has written it again below.</p>}
      <Calls calls={entry.calls} version={entry.version} />
    </article>
  );
}

const many = 20; // calls that are shown at first

function Calls({ calls, version }: { calls: Call[]; version: number }) {
  const [shown, setShown] = useState(many);
  const rest = calls.length - shown;
  return (
    <>
      {calls.slice(0, shown).map((call) => (
        <ToolCall key={call.id} call={call} version={version} />
      ))}
      {rest > 0 && (
        <button type="button" className="button small" onClick={() => setShown(shown + 5 * many)}>
          {number(rest)} more calls
        </button>
      )}
    </>
  );
}

// A user's text is shown unparsed.
function said(entry: Entry): boolean {
  return entry.role === "user" && typeof entry.content === "string";
}

function speaker(entry: Entry): string {
  if (entry.role === "user") return entry.name || "User";
  if (entry.role === "assistant") return entry.name || "Answer";
  if (entry.role === "activity") return entry.name || "Activity";
  return entry.name || entry.role;
}

function Reasoning({ entry }: { entry: Entry }) {
  return (
    <details className="reasoning">
      <summary>
        <icons.Thought /> {entry.open ? "Thinking…" : "Reasoning"}
      </summary>
      <Content content={entry.content} grows={entry.open} />
    </details>
  );
}

interface Part {
  type?: string;
  text?: string;
  url?: string;
  data?: string;
  mimeType?: string;
  source?: { type?: string; value?: string; url?: string; data?: string; mimeType?: string };
}

/** Content shows the content of a message: text, or parts of several kinds. */
export function Content({ content, grows = false }: { content: unknown; grows?: boolean }) {
  if (typeof content === "string") return <Markdown text={content} grows={grows} />;
  if (!Array.isArray(content)) return <JsonTree value={content} />;
  return (
    <>
      {content.map((part: Part, i) => (
        <Drawn key={i} value={part} at={part}>
          <PartView part={part} />
        </Drawn>
      ))}
    </>
  );
}

function PartView({ part }: { part: Part }) {
  if (typeof part === "string") return <Markdown text={part} />;
  if (part.type === "text") return <Markdown text={part.text ?? ""} />;
  const { src, kind } = media(part);
  if (src && kind.startsWith("image")) return <Picture src={src} alt="Image" />;
  if (src && /^https?:/.test(src)) {
    return (
      <a href={src} target="_blank" rel="noopener noreferrer nofollow">
        <icons.External /> {src}
      </a>
    );
  }
  return <JsonTree value={part} depth={1} />;
}

function media(part: Part): { src: string; kind: string } {
  const mime = part.source?.mimeType ?? part.mimeType ?? "";
  const data = part.source?.type === "data" ? part.source.value ?? part.source.data : part.data;
  const url = part.source?.type === "url" ? part.source.value ?? part.source.url : part.url;
  return { src: url ?? (data ? `data:${mime};base64,${data}` : ""), kind: mime || part.type || "" };
}

/** plainText returns the text of a message. */
export function plainText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content.map((p: Part | null) => (typeof p === "string" ? p : text(p?.text))).filter(Boolean).join("\n");
}

/** ToolCall shows a call with its arguments and its result, collapsed unless it failed. */
export const ToolCall = memo(function ToolCall({ call }: { call: Call; version: number }) {
  const [open, setOpen] = useState(false);
  const pending = call.result === undefined;
  const took = call.at !== null && call.ended !== null ? duration(call.ended - call.at) : "";
  return (
    <details className="call" data-state={pending ? "open" : call.failed ? "bad" : "good"} open={open || call.failed} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <icons.Tool />
        <span className="mono clip">{call.name}</span>
        <span className="muted mono clip grow">{call.args.slice(0, 300)}</span>
        {took && <span className="num muted nowrap">{took}</span>}
        {call.made !== undefined && <span className="badge nowrap">edited</span>}
        <span className="mark" data-state={pending ? "open" : call.failed ? "bad" : "good"}>
          {pending ? "no result yet" : call.failed ? "failed" : "done"}
        </span>
      </summary>
      {(open || call.failed) && (
        <div className="stack">
          {call.made === undefined ? (
            <Payload title="Arguments" value={call.args} />
          ) : (
            <div className="beside">
              <Payload title="Requested arguments" value={call.args} />
              <Payload title="Edited arguments" value={call.made} />
            </div>
          )}
          {call.answered && (
            <p className="muted wrap">
              {call.answered.refused ? "Refused" : call.made === undefined ? "Allowed" : "Allowed with edited arguments"}{" "}
              {call.answered.by ? `by ${call.answered.by}` : "automatically: it has expired"}
              {call.answered.at && <> at <time dateTime={call.answered.at} title={exactly(call.answered.at)}>{clock(call.answered.at)}</time></>}.
            </p>
          )}
          {!pending && <Payload title={call.failed ? "Failure" : "Result"} value={call.result} />}
        </div>
      )}
    </details>
  );
});

const large = 1_000_000; // characters beyond which a text is not parsed as JSON

const Payload = memo(function Payload({ title, value }: { title: string; value: unknown }) {
  const raw = () => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  const json = typeof value === "string" ? (value.length < large ? parsed(value) : undefined) : value;
  const nested = typeof json === "object" && json !== null && !Array.isArray(value) && !isDigits(json);
  return (
    <div>
      <div className="row payload-head">
        <span className="muted grow">{title}</span>
        <CopyIcon label={`Copy ${title.toLowerCase()}`} text={raw} />
      </div>
      {nested ? (
        <JsonTree value={json} />
      ) : Array.isArray(value) ? (
        <Content content={value} />
      ) : (
        <div className="code wraps" tabIndex={0} role="group" aria-label={title}>
          <Plain text={raw()} />
        </div>
      )}
    </div>
  );
});
