import { over } from "../../api/queries";
import type { Run } from "../../api/types";
import type { RunLog } from "../../log/runlog";
import { useProject } from "../../app/context";
import { CopyButton, Empty, Loading } from "../../ui/basics";
import { Message } from "../../ui/message";
import { MessageList } from "../../ui/message-list";
import { command } from "./curl";

/** Messages are the messages of the run. */
export function Messages({ run, log }: { run: Run; log: RunLog }) {
  const { entries } = log.transcript;
  const project = useProject();
  if (entries.length === 0) return log.complete ? <Empty title="No messages yet" /> : <Loading />;
  const path = `/api/v1/threads/${encodeURIComponent(run.conversationId)}/messages?projectId=${encodeURIComponent(project)}`;
  return (
    <div className="stack">
      <div className="row">
        <span className="grow" />
        <CopyButton text={() => command(path)} label="Copy curl of the thread’s messages" />
      </div>
      <MessageList
        count={entries.length} keyOf={(i) => entries[i]?.id ?? String(i)} end={!over(run.status)} version={log.version}
        draw={(i) => entries[i] && <Message entry={entries[i]} version={entries[i].version} />}
      />
    </div>
  );
}
