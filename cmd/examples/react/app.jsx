import { HttpAgent } from "@ag-ui/client";
import { useEffect, useMemo, useRef, useState } from "react";
import { createRoot } from "react-dom/client";

// A conversation with an agent: what it says as it says it, its tools, its questions, and a button that stops it.
function Chat() {
  const [agents, setAgents] = useState([]);
  const [name, setName] = useState("");
  const [messages, setMessages] = useState([]);
  const [questions, setQuestions] = useState([]);
  const [error, setError] = useState("");
  const [running, setRunning] = useState(false);
  const [text, setText] = useState("");
  const end = useRef(null);

  useEffect(() => {
    fetch(`${BATON}/api/copilotkit/info`)
      .then(answer => answer.json())
      .then(info => {
        const names = Object.keys(info.agents);
        setAgents(names);
        setName(new URLSearchParams(location.search).get("agent") ?? names[0]);
      })
      .catch(() => setError(`There is no Baton at ${BATON}`));
  }, []);

  const agent = useMemo(() => {
    setMessages([]);
    setQuestions([]);
    return name && new HttpAgent({ url: `${BATON}/api/v1/agui/${name}`, threadId: crypto.randomUUID() });
  }, [name]);

  async function run(parameters) {
    setError("");
    setRunning(true);
    setQuestions([]);
    const show = () => setMessages([...agent.messages]);
    try {
      await agent.runAgent(parameters, {
        onEvent: show,
        onRunErrorEvent: ({ event }) => event.code !== "CANCELLED" && setError(event.message),
        onRunFinishedEvent: ({ event }) => setQuestions(event.outcome?.interrupts ?? []),
      });
    } catch (err) {
      if (err.name !== "AbortError") setError(err.message);
    }
    show();
    setRunning(false);
  }

  function send(event) {
    event.preventDefault();
    if (!text.trim()) return;
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    setText("");
    run();
  }

  const answer = approved =>
    run({ resume: questions.map(q => ({ interruptId: q.id, status: "resolved", payload: { approved } })) });

  useEffect(() => {
    end.current?.scrollIntoView({ block: "end" });
  }, [messages, questions]);

  return (
    <main>
      <header>
        <h1>Baton</h1>
        <select value={name} onChange={event => setName(event.target.value)} disabled={running} aria-label="Agent">
          {agents.map(a => <option key={a}>{a}</option>)}
        </select>
      </header>
      <ol>
        {messages.flatMap(m => [
          m.content && <li key={m.id} className={m.role}>{m.role === "tool" ? `→ ${m.content}` : String(m.content)}</li>,
          ...(m.toolCalls ?? []).map(call => (
            <li key={call.id} className="tool">{call.function.name}({call.function.arguments})</li>
          )),
        ])}
        {error && <li className="error">{error}</li>}
      </ol>
      {questions.length > 0 && (
        <div className="question">
          <span>{questions.map(q => q.message).join(" ") || "May it go on?"}</span>
          <button onClick={() => answer(true)}>Approve</button>
          <button onClick={() => answer(false)}>Refuse</button>
        </div>
      )}
      <form onSubmit={send}>
        <input value={text} onChange={event => setText(event.target.value)} placeholder="Say something" aria-label="Message" />
        {running
          ? <button type="button" onClick={() => agent.abortRun()}>Stop</button>
          : <button disabled={!name || questions.length > 0}>Send</button>}
      </form>
      <div ref={end} />
    </main>
  );
}

createRoot(document.getElementById("page")).render(<Chat />);
