// A chat made of assistant-ui, as its documentation says: what a person sees and can do is real, nothing here knows of Baton
// but its addresses.
import { createRoot } from "react-dom/client";
import { useEffect, useMemo, useState } from "react";
import { HttpAgent } from "@ag-ui/client";
import {
  ActionBarPrimitive as ActionBar,
  AssistantRuntimeProvider,
  ComposerPrimitive as Composer,
  ErrorPrimitive,
  ExportedMessageRepository,
  MessagePrimitive as Message,
  ThreadListItemPrimitive as Item,
  ThreadListPrimitive as List,
  ThreadPrimitive as Thread,
  makeAssistantTool,
  useAui,
  useAuiState,
} from "@assistant-ui/react";
import {
  fromAgUiMessages,
  useAgUiInterrupts,
  useAgUiRuntime,
  useAgUiSetState,
  useAgUiState,
  useAgUiSteerAway,
  useAgUiSubmitInterruptResponses,
} from "@assistant-ui/react-ag-ui";

const query = new URLSearchParams(location.search);
const first = query.get("thread");
const api = query.get("baton") + "/api/v1";
const url = `${api}/agui/${query.get("agent")}`;
const object = (properties = {}) => ({ type: "object", properties });

const Pick = makeAssistantTool({
  toolName: "pick",
  description: "Picks one.",
  parameters: object({ of: { type: "array" } }),
  execute: async ({ of }) => `picked ${of.at(-1)}`,
});
const Break = makeAssistantTool({
  toolName: "break",
  description: "Throws.",
  parameters: object(),
  execute: async () => {
    throw new Error("it broke");
  },
});
const Choose = makeAssistantTool({
  toolName: "choose",
  type: "human",
  description: "Asks a person.",
  parameters: object(),
  render: ({ result, addResult }) =>
    result === undefined ? <button onClick={() => addResult("the left one")}>choose left</button> : <em>chose {JSON.stringify(result)}</em>,
});

// A message that has begun and says nothing yet has a text where others have parts.
const parts = ({ content }) => (Array.isArray(content) ? content : []);

// A page that is loaded anew joins its thread, and goes on with a run that is under way.
const joins = () => {
  const agent = new HttpAgent({ url: url + "/connect", threadId: first });
  const wakes = new Set();
  let over = false;
  const wake = () => wakes.forEach((wake) => wake());
  const changed = () => new Promise((wake) => wakes.add(wake));
  return {
    async load() {
      let snapshot;
      const joined = agent.runAgent({}, { onMessagesSnapshotEvent: ({ event }) => void (snapshot = event.messages), onEvent: wake });
      joined.finally(() => ((over = true), wake()));
      while (!over && snapshot === undefined) await changed();
      await new Promise((next) => setTimeout(next, 50)); // a thread that rests ends at once
      const running = !over;
      const known = running ? snapshot.slice(0, snapshot.findLastIndex(({ role }) => role === "user") + 1) : agent.messages;
      const state = agent.state;
      return {
        ...ExportedMessageRepository.fromArray(fromAgUiMessages(known)),
        ...(Object.keys(state).length > 0 && { state }),
        unstable_resume: running,
      };
    },
    async *resume() {
      for (;;) {
        const turn = agent.messages.slice(agent.messages.findLastIndex(({ role }) => role === "user") + 1);
        yield { content: fromAgUiMessages(turn).flatMap(parts) };
        if (over) return;
        await changed();
      }
    },
    async append() {},
  };
};

const Call = ({ toolName, argsText, result, isError }) => (
  <div className="call" data-error={isError}>
    {toolName} {argsText} → {typeof result === "string" ? result : JSON.stringify(result)}
  </div>
);
const shown = {
  Text: ({ text }) => <p>{text}</p>,
  Reasoning: ({ text }) => <blockquote>{text}</blockquote>,
  tools: { Fallback: Call },
};

const User = () => (
  <Message.Root className="user">
    <Message.Parts components={shown} />
    <ActionBar.Root>
      <ActionBar.Edit>edit</ActionBar.Edit>
    </ActionBar.Root>
  </Message.Root>
);
const Edit = () => (
  <Composer.Root className="edit">
    <Composer.Input />
    <Composer.Send>save</Composer.Send>
  </Composer.Root>
);
const Assistant = () => (
  <Message.Root className="assistant">
    <Message.Parts components={shown} />
    <Message.Error>
      <ErrorPrimitive.Root className="error">
        <ErrorPrimitive.Message />
      </ErrorPrimitive.Root>
    </Message.Error>
    <ActionBar.Root>
      <ActionBar.Reload>again</ActionBar.Reload>
    </ActionBar.Root>
  </Message.Root>
);

const Questions = () => {
  const interrupts = useAgUiInterrupts();
  const submit = useAgUiSubmitInterruptResponses();
  const steerAway = useAgUiSteerAway();
  if (interrupts.length === 0) return null;
  const answer = (payload) =>
    submit(interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }))).catch((error) => console.error(String(error)));
  return (
    <div className="question">
      {interrupts.map(({ id, message }) => (
        <span key={id}>{message}</span>
      ))}
      <button onClick={() => answer({ approved: true })}>yes</button>
      <button onClick={() => steerAway("never mind").catch((error) => console.error(String(error)))}>something else</button>
    </div>
  );
};

const State = () => {
  const state = useAgUiState();
  const setState = useAgUiSetState();
  return (
    <aside>
      <pre id="state">{JSON.stringify(state)}</pre>
      <button onClick={() => setState((state) => ({ ...state, page: 1 }))}>set state</button>
    </aside>
  );
};

// The list of threads is the server's.
const useThreadList = (agent) => {
  const [threads, setThreads] = useState([]);
  const [threadId, setThreadId] = useState(first);
  const refresh = async () => {
    const { items } = await (await fetch(api + "/threads?limit=100")).json();
    setThreads(items.map(({ threadId, title }) => ({ status: "regular", id: threadId, title })));
  };
  const change = (method, body) => async (id, title) => {
    await fetch(`${api}/threads/${id}`, { method, ...body?.(title) });
    await refresh();
  };
  useEffect(() => void refresh(), []);
  return {
    threadId,
    threads,
    onSwitchToThread: async (id) => {
      const joined = new HttpAgent({ url: url + "/connect", threadId: id });
      await joined.runAgent();
      setThreadId((agent.threadId = id));
      return { messages: ExportedMessageRepository.fromArray(fromAgUiMessages(joined.messages)).messages.map(({ message }) => message), state: joined.state };
    },
    onRename: change("PATCH", (title) => ({ headers: { "Content-Type": "application/json" }, body: JSON.stringify({ title }) })),
    onDelete: change("DELETE"),
  };
};

const ListItem = () => {
  const aui = useAui();
  const id = useAuiState((s) => s.threadListItem.id);
  return (
    <Item.Root className="thread" data-id={id}>
      <Item.Trigger>
        <Item.Title fallback="unnamed" />
      </Item.Trigger>
      <button onClick={() => aui.threadListItem().rename("named")}>rename</button>
      <Item.Delete>delete</Item.Delete>
    </Item.Root>
  );
};

const App = () => {
  const agent = useMemo(() => new HttpAgent({ url, threadId: first }), []);
  const history = useMemo(joins, []);
  const threadList = useThreadList(agent);
  const [errors, setErrors] = useState([]);
  const runtime = useAgUiRuntime({
    agent,
    adapters: { history, threadList },
    showThinking: true,
    onError: (error) => setErrors((all) => [...all, error.message]),
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Pick />
      <Break />
      <Choose />
      <List.Root id="threads">
        <List.Items components={{ ThreadListItem: ListItem }} />
      </List.Root>
      <Thread.Root>
        <Thread.Messages components={{ UserMessage: User, UserEditComposer: Edit, AssistantMessage: Assistant }} />
        <Questions />
        <State />
        <ul id="errors">
          {errors.map((error, i) => (
            <li key={i}>{error}</li>
          ))}
        </ul>
        <Thread.If running>
          <span id="running">running</span>
        </Thread.If>
        <Composer.Root className="new">
          <Composer.Input />
          <Composer.Send>send</Composer.Send>
          <Composer.Cancel>stop</Composer.Cancel>
        </Composer.Root>
      </Thread.Root>
    </AssistantRuntimeProvider>
  );
};

createRoot(document.getElementById("app")).render(<App />);
