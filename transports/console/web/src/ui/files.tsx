import { useSigned } from "../api/threads";
import type { Attachment, ThreadMessage } from "../api/types";
import { bytes } from "./format";
import * as icons from "./icons";
import { Picture } from "./picture";

/** attachmentsOf are the files that go with a message. */
export function attachmentsOf(message: ThreadMessage | null): Attachment[] {
  const list = (message?.metadata as { attachments?: unknown } | undefined)?.attachments;
  return Array.isArray(list) ? (list as Attachment[]) : [];
}

/** Files are what is attached to a message. */
export function Files({ list }: { list: Attachment[] }) {
  if (list.length === 0) return null;
  return (
    <ul className="files" aria-label="Attachments">
      {list.map((file) => (
        <li key={file.path}>
          <File file={file} />
        </li>
      ))}
    </ul>
  );
}

function File({ file }: { file: Attachment }) {
  const url = useSigned(file).data?.url;
  if (url && file.mimeType.startsWith("image/")) return <Picture src={url} alt={file.filename} />;
  const label = (
    <>
      <icons.Clip /> <span className="clip">{file.filename}</span> <span className="muted num nowrap">{bytes(file.size)}</span>
    </>
  );
  if (!url) return <span className="file">{label}</span>;
  return (
    <a className="file" href={url} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  );
}
