import { useLayoutEffect, useRef, useState, type ClipboardEvent, type DragEvent, type FormEvent, type KeyboardEvent } from "react";
import { say } from "../../api/problem";
import { useLimits } from "../../api/queries";
import { upload } from "../../api/threads";
import type { Attachment, Run } from "../../api/types";
import { useProject } from "../../app/context";
import { bytes } from "../../ui/format";
import * as icons from "../../ui/icons";
import type { Setup, Worker } from "./setup";
import type { Ask } from "./use-ask";

interface Props {
  text: string;
  files: Attachment[]; // attachments of the message
  setFiles: (change: (before: Attachment[]) => Attachment[]) => void;
  change: (part: Partial<Setup>) => void;
  ask: Ask;
  open: Run[]; // open runs of the thread
  stop: () => void;
  worker: Worker;
  begun: number; // messages that the next one comes behind, -1 if they are no array
  staged: boolean; // the next message replaces the state
}

/** Composer is the input of the next message. */
export function Composer({ text, files, setFiles, change, ask, open, stop, worker, begun, staged }: Props) {
  const [loading, setLoading] = useState(0);
  const [refused, setRefused] = useState<{ name: string; why: string }[]>([]);
  const [over, setOver] = useState(false); // a file is being dragged over it
  const most = useLimits(false).data?.attachments?.size;
  const project = useProject();
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    const f = field.current;
    if (!f) return;
    f.style.height = "auto";
    f.style.height = `${Math.min(f.scrollHeight + 2, 260)}px`;
  }, [text]);
  const waits = open.some((r) => r.status === "WAITING" && r.interrupts.length > 0);
  const nothing = text.trim() === "" && files.length === 0 && !staged && begun <= 0 && worker.kind === "agent";
  const blocked = nothing || begun < 0 || waits || ask.busy || loading > 0 || worker.name === "";
  const send = () => {
    if (blocked) return;
    ask.say(text, files, () => {
      change({ text: "" });
      setFiles(() => []);
      setRefused([]);
    });
  };
  const attach = async (list: FileList | File[]) => {
    const refuse = (name: string, why: string) => setRefused((before) => [...before.filter((r) => r.name !== name), { name, why }]);
    for (const file of list) {
      if (most !== undefined && file.size > most) {
        refuse(file.name, `The file has ${bytes(file.size)}; the limit is ${bytes(most)}.`);
        continue;
      }
      setLoading((n) => n + 1);
      await upload(project, file).then(
        (stored) => setFiles((before) => [...before, stored]),
        (error: unknown) => refuse(file.name, say(error)),
      );
      setLoading((n) => n - 1);
    }
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === "Escape") field.current?.blur();
    if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing) return;
    e.preventDefault();
    send();
  };
  const take = (e: ClipboardEvent | DragEvent, list: FileList | undefined) => {
    if (!list || list.length === 0) return;
    e.preventDefault();
    void attach(list);
  };
  const submit = (e: FormEvent) => {
    e.preventDefault();
    send();
  };
  return (
    <form
      className="composer" data-over={over} onSubmit={submit}
      onDragOver={(e) => {
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => {
        setOver(false);
        take(e, e.dataTransfer.files);
      }}
    >
      {(files.length > 0 || loading > 0) && (
        <ul className="files" aria-label="Attachments of this message">
          {files.map((f) => (
            <li key={f.path} className="file">
              <icons.Clip /> <span className="clip">{f.filename}</span> <span className="muted num nowrap">{bytes(f.size)}</span>
              <button type="button" className="button plain icon small" aria-label={`Remove ${f.filename}`} onClick={() => setFiles((before) => before.filter((x) => x !== f))}>
                <icons.Close />
              </button>
            </li>
          ))}
          {loading > 0 && <li className="muted">Uploading …</li>}
        </ul>
      )}
      <div role="alert">
        {refused.length > 0 && (
          <ul className="files" aria-label="Refused files">
            {refused.map(({ name, why }) => (
              <li key={name} className="file" data-refused="true">
                <icons.Warn />
                <span className="wrap">
                  {name}: {why}
                </span>
                <button
                  type="button" className="button plain icon small" aria-label={`Dismiss ${name}`}
                  onClick={() => setRefused((before) => before.filter((r) => r.name !== name))}
                >
                  <icons.Close />
                </button>
              </li>
            ))}
          </ul>
        )}
      </div>
      <textarea
        id="say" ref={field} rows={1} aria-label="Message" placeholder={waits ? "Answer the question above first." : `Message ${worker.name || "an agent"}`}
        value={text} onChange={(e) => change({ text: e.target.value })} onKeyDown={key} onPaste={(e) => take(e, e.clipboardData.files)}
      />
      <div className="row">
        <input ref={picker} type="file" multiple hidden aria-hidden="true" tabIndex={-1}
          onChange={({ currentTarget: input }) => {
            const chosen = [...(input.files ?? [])];
            input.value = "";
            void attach(chosen);
          }}
        />
        <button type="button" className="button plain icon" aria-label="Attach files" title="Attach files" onClick={() => picker.current?.click()}>
          <icons.Clip />
        </button>
        <span className="muted hint grow clip">{staged ? "The message replaces the state with the edited one." : "Enter sends, Shift+Enter starts a new line."}</span>
        {open.length > 0 && (
          <button type="button" className="button danger" onClick={stop}>
            <icons.Stop /> Stop
          </button>
        )}
        <button type="submit" className="button primary" disabled={blocked}>
          <icons.Send /> {worker.kind === "workflow" ? "Run" : "Send"}
        </button>
      </div>
    </form>
  );
}
