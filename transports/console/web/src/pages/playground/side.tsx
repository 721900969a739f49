import type { Attachment } from "../../api/types";
import type { ThreadLog } from "../../log/threadlog";
import { Tabs } from "../../ui/tabs";
import { useMay } from "../../app/context";
import { ContextTab } from "./context-tab";
import { ModelTab } from "./model-tab";
import { RequestTab } from "./request-tab";
import type { Setup, Worker } from "./setup";
import { StateTab } from "./state-tab";
import { ToolsTab, type Declared } from "./tools-tab";

interface Props {
  log: ThreadLog;
  setup: Setup;
  change: (part: Partial<Setup>) => void;
  worker: Worker;
  threadId: string;
  files: Attachment[]; // attachments of the next message
  tab: string;
  choose: (tab: string) => void;
  declare: (declared: Declared) => void;
}

/** Side is the data of the next message: state, tools, context, and the resulting request. */
export function Side({ log, setup, change, worker, threadId, files, tab, choose, declare }: Props) {
  const may = useMay("operator");
  return (
    <Tabs
      label="Settings" chosen={tab} choose={choose}
      tabs={[
        { id: "state", name: "State" },
        { id: "tools", name: "Tools", count: setup.tools.length || undefined },
        { id: "context", name: "Context", count: setup.context.length || undefined },
        ...(may ? [{ id: "model", name: "Model" }] : []),
        { id: "request", name: "Request" },
      ]}
    >
      {tab === "state" && <StateTab state={log.transcript.state} staged={setup.state} stage={(state) => change({ state })} />}
      {tab === "tools" && <ToolsTab tools={setup.tools} change={(tools) => change({ tools })} declare={declare} />}
      {tab === "context" && <ContextTab setup={setup} change={change} />}
      {tab === "model" && <ModelTab setup={setup} change={change} worker={worker} />}
      {tab === "request" && <RequestTab setup={setup} worker={worker} threadId={threadId} files={files} />}
    </Tabs>
  );
}
