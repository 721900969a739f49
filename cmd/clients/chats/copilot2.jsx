// A chat of CopilotKit's second version, with its own components and hooks; Baton is its runtime.
import { createRoot } from "react-dom/client";
import { useState } from "react";
import { z } from "zod";
import {
  CopilotChat,
  CopilotKitProvider,
  useAgent,
  useCopilotKit,
  useFrontendTool,
  useHumanInTheLoop,
  useInterrupt,
  useThreads,
} from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";

const query = new URLSearchParams(location.search);
const agentId = query.get("agent");

const Threads = ({ show }) => {
  const { threads, renameThread, archiveThread, deleteThread, error } = useThreads({ agentId, limit: 100 });
  return (
    <ul id="threads" data-error={error?.message}>
      {threads.map(({ id, name }) => (
        <li key={id} data-id={id}>
          <a onClick={() => show(id)}>{name ?? "unnamed"}</a> <button onClick={() => renameThread(id, "named")}>rename</button>
          <button onClick={() => archiveThread(id)}>archive</button>
          <button onClick={() => deleteThread(id)}>delete</button>
        </li>
      ))}
    </ul>
  );
};

const Tools = () => {
  const { agent } = useAgent({ agentId });
  const { copilotkit } = useCopilotKit();
  useFrontendTool({
    name: "pick",
    description: "Picks one.",
    parameters: z.object({ of: z.array(z.number()) }),
    handler: async ({ of }) => `picked ${of.at(-1)}`,
    render: ({ result }) => <div className="call">pick → {result}</div>,
  });
  useFrontendTool({
    name: "break",
    description: "Throws.",
    parameters: z.object({}),
    handler: async () => {
      throw new Error("it broke");
    },
    render: ({ result }) => <div className="call">break → {result}</div>,
  });
  useHumanInTheLoop({
    name: "choose",
    description: "Asks a person.",
    parameters: z.object({}),
    render: ({ respond, result }) =>
      respond ? <button onClick={() => respond("the left one")}>choose left</button> : <div className="call">chose {result}</div>,
  });
  useInterrupt({
    agentId,
    render: ({ interrupt, resolve, cancel }) => (
      <div className="question">
        <span>{interrupt?.message}</span>
        <button onClick={() => resolve({ approved: true })}>yes</button>
        <button onClick={() => cancel()}>no</button>
      </div>
    ),
  });
  const last = () => agent.messages.findLastIndex(({ role }) => role === "user");
  const again = (messages) => {
    agent.setMessages(messages);
    copilotkit.runAgent({ agent });
  };
  return (
    <aside>
      <pre id="state">{JSON.stringify(agent.state)}</pre>
      <button onClick={() => agent.setState({ ...agent.state, page: 1 })}>set state</button>
      <button onClick={() => again(agent.messages.slice(0, last() + 1))}>again</button>
      <button onClick={() => again([...agent.messages.slice(0, last()), { ...agent.messages[last()], content: "edited" }])}>edit</button>
      {agent.isRunning && <span id="running">running</span>}
    </aside>
  );
};

const App = () => {
  const [threadId, show] = useState(query.get("thread"));
  const [errors, setErrors] = useState([]);
  return (
    <CopilotKitProvider
      runtimeUrl={query.get("baton") + "/api/copilotkit"}
      showDevConsole={false}
      onError={({ error }) => setErrors((all) => [...all, error.message])}
    >
      <div style={{ height: 560 }}>
        <CopilotChat agentId={agentId} threadId={threadId} />
      </div>
      <Tools />
      <Threads show={show} />
      <ul id="errors">
        {errors.map((error, i) => (
          <li key={i}>{error}</li>
        ))}
      </ul>
    </CopilotKitProvider>
  );
};

createRoot(document.getElementById("app")).render(<App />);
