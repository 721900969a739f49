// A chat of CopilotKit's first version, with its own components and hooks; Baton is its runtime.
import { createRoot } from "react-dom/client";
import { CopilotKit, useCoAgent, useCopilotAction, useLangGraphInterrupt } from "@copilotkit/react-core";
import { CopilotChat } from "@copilotkit/react-ui";
import "@copilotkit/react-ui/styles.css";

const query = new URLSearchParams(location.search);
const agent = query.get("agent");

const Tools = () => {
  const { state, setState, running } = useCoAgent({ name: agent, initialState: {} });
  useCopilotAction({
    name: "pick",
    description: "Picks one.",
    parameters: [{ name: "of", type: "number[]" }],
    handler: async ({ of }) => `picked ${of.at(-1)}`,
    render: ({ result }) => <div className="call">pick → {result}</div>,
  });
  useCopilotAction({
    name: "break",
    description: "Throws.",
    parameters: [],
    handler: async () => {
      throw new Error("it broke");
    },
    render: ({ result }) => <div className="call">break → {result}</div>,
  });
  useCopilotAction({
    name: "choose",
    description: "Asks a person.",
    parameters: [],
    renderAndWaitForResponse: ({ respond, result }) =>
      respond ? <button onClick={() => respond("the left one")}>choose left</button> : <div className="call">chose {result}</div>,
  });
  useLangGraphInterrupt({
    render: ({ event, resolve }) => (
      <div className="question">
        <span>{event.value?.message ?? JSON.stringify(event.value)}</span>
        <button onClick={() => resolve("go")}>yes</button>
      </div>
    ),
  });
  return (
    <aside>
      <pre id="state">{JSON.stringify(state)}</pre>
      <button onClick={() => setState({ ...state, page: 1 })}>set state</button>
      {running && <span id="running">running</span>}
    </aside>
  );
};

createRoot(document.getElementById("app")).render(
  <CopilotKit runtimeUrl={query.get("baton") + "/api/copilotkit"} agent={agent} threadId={query.get("thread")} showDevConsole={false}>
    <Tools />
    <div style={{ height: 700, overflow: "auto" }}>
      <CopilotChat />
    </div>
  </CopilotKit>,
);
