import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { download } from "../../api/client";
import { isTool, useChangeThread, useDeleteThread } from "../../api/threads";
import type { Run, Thread } from "../../api/types";
import { useMayControl, useMayDelete, useOwns, useProject } from "../../app/context";
import { Failure } from "../../ui/basics";
import { Confirm, Dialog } from "../../ui/dialog";
import { failed, toast } from "../../ui/toast";
import { markdownOf } from "./markdown";

/** ThreadActions are the operations on a thread that the caller may do. */
export function ThreadActions({ thread, latest, gone }: { thread: Thread; latest: Run | undefined; gone: () => void }) {
  const { conversationId, archived } = thread;
  const [open, setOpen] = useState<"rename" | "delete" | null>(null);
  const change = useChangeThread();
  const remove = useDeleteThread();
  const control = useMayControl(thread.user);
  const may = useMayDelete(thread.user);
  const own = useOwns(thread.user);
  const project = useProject();
  const name = thread.title || thread.threadId;
  const markdown = useMutation({ mutationFn: () => markdownOf(project, thread, name).then((blob) => download(blob, `${name.slice(0, 60)}.md`)) });
  const archive = (archived: boolean) =>
    change.mutate({ thread: conversationId, archived }, { onError: failed, onSuccess: () => toast(archived ? "Thread archived." : "Thread restored.") });
  return (
    <div className="row wraps">
      {own && latest && !isTool(latest) && (
        <Link href={`/playground/${encodeURIComponent(thread.threadId)}`} className="button small">
          Open in the playground
        </Link>
      )}
      <button type="button" className="button small" disabled={markdown.isPending} onClick={() => markdown.mutate(undefined, { onError: failed })}>
        Markdown
      </button>
      {control && (
        <>
          <button type="button" className="button small" onClick={() => {
              change.reset();
              setOpen("rename");
            }}>
            Rename
          </button>
          <button type="button" className="button small" disabled={change.isPending} onClick={() => archive(!archived)}>
            {archived ? "Restore" : "Archive"}
          </button>
        </>
      )}
      {may && (
        <button type="button" className="button plain small danger" onClick={() => setOpen("delete")}>
          Delete
        </button>
      )}
      {open === "rename" && (
        <Rename
          old={thread.title ?? ""} onClose={() => setOpen(null)} error={change.error}
          rename={(title) => change.mutate({ thread: conversationId, title }, { onSuccess: () => setOpen(null) })}
        />
      )}
      {open === "delete" && (
        <Confirm
          title="Delete this thread?" act="Delete it" busy={remove.isPending} onClose={() => setOpen(null)}
          onAct={() => {
            gone(); // first, so that the page does not request deleted data
            void remove.mutateAsync({ thread: conversationId }).then(() => toast("Thread deleted."), failed);
          }}
        >
          <p>This also deletes its messages, runs and files, cancels open runs, and cannot be undone.</p>
        </Confirm>
      )}
    </div>
  );
}

function Rename({ old, rename, error, onClose }: { old: string; rename: (title: string) => void; error: unknown; onClose: () => void }) {
  const [title, setTitle] = useState(old);
  return (
    <Dialog
      title="Rename the thread" onClose={onClose}
      footer={
        <button type="button" className="button primary" disabled={title.trim() === ""} onClick={() => rename(title.trim())}>
          Rename
        </button>
      }
    >
      <div className="stack">
        <input
          className="input" aria-label="New title" maxLength={200} autoFocus onFocus={(e) => e.target.select()} value={title} onChange={(e) => setTitle(e.target.value)}
          onKeyDown={(e) => e.key === "Enter" && title.trim() !== "" && rename(title.trim())}
        />
        {error !== null && <Failure error={error} />}
      </div>
    </Dialog>
  );
}
