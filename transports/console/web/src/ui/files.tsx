import { useSigned } from "../api/threads";
import type { Attachment, ThreadMessage } from "../api/types";
import { useProject } from "../app/context";
import { bytes } from "./format";
import * as icons from "./icons";
import { JsonTree } from "./json";
import { Picture } from "./picture";

/** Files are the attachments of a message. */
export function Files({ message }: { message: ThreadMessage | null }) {
  const list = (message?.metadata as { attachments?: unknown } | null | undefined)?.attachments;
  if (list === undefined || list === null) return null;
  if (!Array.isArray(list)) return <JsonTree value={list} />;
  if (list.length === 0) return null;
  return (
    <ul className="files" aria-label="Attachments">
      {list.map((file: unknown, i) => (
        <li key={i}>{isFile(file) ? <File file={file} /> : <JsonTree value={file} />}</li>
      ))}
    </ul>
  );
}

// Attachments with members of wrong types are ignored.
function isFile(value: unknown): value is Partial<Attachment> & { path: string } {
  const file = value as Partial<Attachment> | null;
  const texts = [file?.bucket, file?.mimeType, file?.filename];
  return typeof file?.path === "string" && texts.every((t) => t === undefined || typeof t === "string") && ["undefined", "number"].includes(typeof file.size);
}

function File({ file }: { file: Partial<Attachment> & { path: string } }) {
  const project = useProject();
  const url = useSigned({ bucket: file.bucket ?? project, path: file.path }).data?.url;
  const name = file.filename ?? file.path;
  if (url && file.mimeType?.startsWith("image/")) return <Picture src={url} alt={name} />;
  const label = (
    <>
      <icons.Clip /> <span className="clip">{name}</span> {file.size !== undefined && <span className="muted num nowrap">{bytes(file.size)}</span>}
    </>
  );
  if (!url) return <span className="file">{label}</span>;
  return (
    <a className="file" href={url} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  );
}
