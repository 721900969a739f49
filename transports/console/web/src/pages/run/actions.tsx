import { useState } from "react";
import { useAppend, useCancel } from "../../api/actions";
import { download } from "../../api/client";
import { over } from "../../api/queries";
import { isTool } from "../../api/threads";
import type { Run } from "../../api/types";
import { useMayControl, useMayDelete } from "../../app/context";
import { useKeys } from "../../app/keys";
import type { RunLog } from "../../log/runlog";
import { Failure } from "../../ui/basics";
import { Confirm, Dialog } from "../../ui/dialog";
import { failed, toast } from "../../ui/toast";
import { Curl } from "./curl";
import { documentOf } from "./document";
import { Rerun } from "./rerun";

type Open = "append" | "rerun" | "curl" | "cancel" | "delete" | null;

/** Actions are the operations on a run that the caller may do. */
export function Actions({ run, log, onDelete }: { run: Run; log: RunLog; onDelete: () => void }) {
  const [open, setOpen] = useState<Open>(null);
  const control = useMayControl(run.user);
  const deletes = useMayDelete(run.user);
  const cancel = useCancel();
  const end = () => cancel.mutate(run, { onError: failed });
  const close = () => setOpen(null);
  const ended = over(run.status);
  const [cancels, appends, reruns] = [control && !ended, control && run.status !== "CANCELLED", !isTool(run)];
  useKeys("Run actions", {
    ...(appends && { a: { does: "append a message", run: () => setOpen("append") } }),
    ...(reruns && { e: { does: "run it again", run: () => setOpen("rerun") } }),
    ...(cancels && { c: { does: "cancel it", run: () => setOpen("cancel") } }),
    y: { does: "show it as curl", run: () => setOpen("curl") },
  });
  return (
    <div className="actions row wraps">
      {cancels && (
        <button type="button" className="button danger" disabled={cancel.isPending} onClick={end}>
          Cancel
        </button>
      )}
      {appends && (
        <button type="button" className="button" onClick={() => setOpen("append")}>
          {ended ? "Say more" : "Say something"}
        </button>
      )}
      {reruns && (
        <button type="button" className="button" onClick={() => setOpen("rerun")}>
          Run again
        </button>
      )}
      <button type="button" className="button plain" onClick={() => setOpen("curl")}>
        curl
      </button>
      <button type="button" className="button plain" disabled={!log.complete} onClick={() => download(documentOf(run, log), `${run.id}.json`)}>
        Download
      </button>
      {deletes && ended && (
        <button type="button" className="button plain danger" onClick={() => setOpen("delete")}>
          Delete
        </button>
      )}
      {open === "append" && <Append run={run} onClose={close} />}
      {open === "rerun" && <Rerun run={run} log={log} onClose={close} />}
      {open === "curl" && <Curl run={run} log={log} onClose={close} />}
      {open === "cancel" && cancels && (
        <Confirm
          title="Cancel this run?" act="Cancel it" onClose={close}
          onAct={() => {
            close();
            end();
          }}
        >
          <p>The run stops and its open questions are cancelled. Its messages stay.</p>
        </Confirm>
      )}
      {open === "delete" && (
        <Confirm
          title="Delete this run?" act="Delete it" onClose={close}
          onAct={() => {
            close();
            onDelete();
          }}
        >
          <p>This also deletes its events and messages, and cannot be undone.</p>
        </Confirm>
      )}
    </div>
  );
}

function Append({ run, onClose }: { run: Run; onClose: () => void }) {
  const [content, setContent] = useState("");
  const append = useAppend();
  const send = () =>
    append.mutate(
      { run, content },
      {
        onSuccess: () => {
          toast(over(run.status) ? "Message appended. The run starts again." : "Message appended. The run reads it at its next safe boundary.");
          onClose();
        },
      },
    );
  return (
    <Dialog
      title={over(run.status) ? "Append a message and start the run again" : "Append a message to the run"}
      onClose={onClose}
      footer={
        <button type="button" className="button primary" disabled={content.trim() === "" || append.isPending} onClick={send}>
          Send
        </button>
      }
    >
      <div className="stack">
        <textarea className="input" aria-label="Message" rows={5} autoFocus value={content} onChange={(e) => setContent(e.target.value)} />
        {append.error && <Failure error={append.error} />}
      </div>
    </Dialog>
  );
}
