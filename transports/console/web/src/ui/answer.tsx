import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { ask } from "../api/client";
import { isDigits } from "../api/json";
import { Problem } from "../api/problem";
import { useOffers } from "../api/queries";
import type { Interrupt, ResumeEntry, Waiting } from "../api/types";
import { Boundary } from "../app/boundary";
import { useProject } from "../app/context";
import type { Call } from "../log/transcript";
import "./answer.css";
import { Failure } from "./basics";
import { Drawn, Undrawn } from "./drawn";
import { exactly } from "./format";
import { JsonTree, parsed } from "./json";
import { initial, isSchema, wrong, type Schema } from "./schema";
import { toast } from "./toast";
import { ValueEditor } from "./value-editor";

interface Props {
  runId: string;
  user?: string; // owner of the run, if the id alone may be ambiguous
  interrupts: Interrupt[];
  calls?: Call[]; // calls of the thread, if known, for the arguments of front-end tools
}

type Given = Record<string, ResumeEntry>;

/** Answer shows the questions of a run, and sends the answers to those that the caller may answer together. */
export function Answer({ runId, user, interrupts, calls }: Props) {
  const [given, setGiven] = useState<Given>({});
  const send = useSend(runId, user);
  const own = interrupts.filter((i) => i.answerable !== false);
  const give = (entry: ResumeEntry) => {
    const next = { ...given, [entry.interruptId]: entry };
    setGiven(next);
    if (!own.every((i) => next[i.id])) return;
    send.mutate(own.map((i) => next[i.id] as ResumeEntry), { onError: () => setGiven({}) }); // show the questions again, with their inputs
  };
  return (
    <div className="stack">
      {interrupts.map((i) =>
        own.includes(i) ? (
          <Question key={i.id} interrupt={i} call={calls?.find((c) => c.id === i.toolCallId)} given={given[i.id]} give={give} busy={send.isPending} />
        ) : (
          <Drawn key={i.id} value={i}>
            <Told asked={i} />
          </Drawn>
        ),
      )}
      {own.length > 1 && !send.isPending && (
        <p className="muted">
          {own.filter((i) => given[i.id]).length} of {own.length} answered. The run continues when all are answered.
        </p>
      )}
      {send.error && <Failure error={placed(send.error)} />}
    </div>
  );
}

// A question for somebody else.
function Told({ asked }: { asked: Interrupt }) {
  const { tool, args } = callOf(asked);
  return (
    <section className="question stack">
      <h3 className="wrap">{asked.message || "A call of a front-end tool"}</h3>
      {tool && <p className="mono muted">{tool}</p>}
      {args !== undefined && <JsonTree value={args} depth={3} />}
      <p className="muted">You may not answer this question.</p>
    </section>
  );
}

// The error of an answer that breaks its schema, with the place in the answer.
function placed(error: unknown): unknown {
  const at = error instanceof Problem && /^\/resume\/\d+\/payload(\/.*)$/.exec(error.place)?.[1];
  return at ? new Error(`${error.message} (at ${at})`) : error;
}

function useSend(runId: string, user?: string) {
  const project = useProject();
  const queries = useQueryClient();
  const query = user === undefined ? "" : `?user=${encodeURIComponent(user)}`;
  return useMutation({
    mutationFn: (resume: ResumeEntry[]) =>
      ask(`/api/projects/${encodeURIComponent(project)}/agent-runs/${encodeURIComponent(runId)}/resume${query}`, {
        method: "POST",
        body: JSON.stringify({ resume }),
      }),
    onSuccess: () => toast("Answered. The run continues."),
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["waiting"] });
      void queries.invalidateQueries({ queryKey: ["run"] });
    },
  });
}

interface QuestionProps {
  interrupt: Interrupt;
  call?: Call;
  given?: ResumeEntry;
  give: (entry: ResumeEntry) => void;
  busy: boolean;
}

function Question(props: QuestionProps) {
  const { interrupt: i, given } = props;
  const undrawn = () => (
    <>
      {typeof i.message === "string" && <h3 className="wrap">{i.message}</h3>}
      <Undrawn value={i} />
      <div className="stack" hidden={given !== undefined}>
        <Result {...props} />
      </div>
    </>
  );
  return (
    <section className="question">
      <Boundary failed={undrawn}>
        <Asked {...props} />
      </Boundary>
    </section>
  );
}

function Asked(props: QuestionProps) {
  const { interrupt: i, given } = props;
  const { tool } = callOf(i, props.call);
  const about = useOffers().data?.tools.find((t) => t.name === tool)?.description;
  return (
    <>
      <h3 className="wrap">{i.message || (isClientCall(i) ? clientCall(tool) : "The run is waiting for an answer.")}</h3>
      {tool && (
        <p className="row wraps muted">
          Tool <span className="mono">{tool}</span>
          {about && <span className="wrap">{about}</span>}
        </p>
      )}
      {i.expiresAt && (
        <p className="muted">
          Expires <time dateTime={i.expiresAt}>{exactly(i.expiresAt)}</time>, and then counts as refused.
        </p>
      )}
      {given && <p className="muted">{given.status === "cancelled" ? "Refused." : "Answered."}</p>}
      <div className="stack" hidden={given !== undefined}>
        <Fields {...props} />
      </div>
    </>
  );
}

function Fields(props: QuestionProps) {
  if (asksLeave(props.interrupt)) return <Approval {...props} />;
  return isClientCall(props.interrupt) ? <Result {...props} /> : <Form {...props} />;
}

/** callOf returns the tool call of an interrupt, as far as it is known. */
export function callOf(i: Interrupt & Partial<Pick<Waiting, "toolName" | "arguments">>, call?: Call): { tool: string | undefined; args: unknown } {
  const asked = (i.metadata ?? {}) as About;
  return {
    tool: asked.toolName ?? i.toolName ?? call?.name,
    args: asked.input ?? i.arguments ?? (call && parsed(call.args)),
  };
}

interface About {
  toolName?: string;
  input?: unknown;
  agent?: string;
  query?: string;
}

function asksLeave(i: Interrupt) {
  const asked = i.metadata as About | undefined;
  return !isSchema(i.responseSchema) && !isClientCall(i) && (asked?.toolName !== undefined || asked?.agent !== undefined || i.reason === "confirmation");
}

// A call of a front-end tool is answered under its own id.
function isClientCall(i: Interrupt) {
  return i.reason === "tool_call" && i.id === i.toolCallId;
}

const clientCall = (tool?: string) => (tool ? `Write the result of the front-end tool ${tool}` : "Write the result of the front-end tool");

// A form for the result of a front-end tool, or for the answer to a question without a usable schema.
function Result({ interrupt: i, call, give, busy }: QuestionProps) {
  const id = useId();
  const [text, setText] = useState("");
  const own = isClientCall(i);
  const args = own ? callOf(i, call).args : undefined;
  return (
    <form
      className="stack"
      onSubmit={(e) => {
        e.preventDefault();
        give({ interruptId: i.id, status: "resolved", payload: parsed(text) ?? text });
      }}
    >
      {args !== undefined && <JsonTree value={args} depth={3} />}
      <div className="field">
        <label className="label" htmlFor={id}>
          {own ? "Result" : "Answer"}
        </label>
        <textarea id={id} className="input mono" rows={3} spellCheck={false} value={text} onChange={(e) => setText(e.target.value)} />
        <span className="hint">JSON or text.</span>
      </div>
      <div className="row wraps">
        <button type="submit" className="button primary" disabled={busy}>
          {own ? "Send result" : "Answer"}
        </button>
        <button type="button" className="button danger" disabled={busy} onClick={() => give({ interruptId: i.id, status: "cancelled" })}>
          {own ? "Fail the call" : "Do not answer"}
        </button>
      </div>
    </form>
  );
}

// A form to approve a tool call, with editable arguments, or an agent.
function Approval({ interrupt: i, give, busy }: QuestionProps) {
  const asked = (i.metadata ?? {}) as About;
  const tool = useOffers().data?.tools.find((t) => t.name === asked.toolName);
  const schema = isSchema(tool?.parameters) ? tool.parameters : undefined;
  const [edited, setEdited] = useState<{ args: unknown } | null>(null);
  const [problems, setProblems] = useState<Record<string, string>>({});
  const bad = edited !== null && (typeof edited.args !== "object" || edited.args === null || isDigits(edited.args));
  const allow = () => {
    const found = edited && schema ? wrong(schema, edited.args, true) : {};
    setProblems(found);
    if (Object.keys(found).length > 0) return;
    give({ interruptId: i.id, status: "resolved", payload: { approved: true, ...(edited && { editedArgs: edited.args }) } });
  };
  return (
    <>
      {asked.query && <p className="wrap">{asked.query}</p>}
      {asked.input !== undefined && edited === null && <JsonTree value={asked.input} depth={3} />}
      {edited && <ValueEditor label="Arguments" schema={schema} value={edited.args} onChange={(args) => setEdited({ args })} problems={problems} />}
      {bad && <p className="wrong">The arguments must be a JSON object.</p>}
      <div className="row wraps">
        <button type="button" className="button primary" disabled={busy || bad} onClick={allow}>
          {edited === null ? "Allow" : "Allow with these arguments"}
        </button>
        <button type="button" className="button danger" disabled={busy} onClick={() => give({ interruptId: i.id, status: "resolved", payload: { approved: false } })}>
          Refuse
        </button>
        {asked.input !== undefined && edited === null && (
          <button type="button" className="button plain" onClick={() => setEdited({ args: asked.input })}>
            Edit the arguments
          </button>
        )}
      </div>
    </>
  );
}

const anything: Schema = { type: "string", title: "Answer", maxLength: 100_000 };

function Form({ interrupt: i, give, busy }: QuestionProps) {
  const schema = isSchema(i.responseSchema) ? i.responseSchema : anything;
  const [value, setValue] = useState<unknown>(() => initial(schema));
  const [problems, setProblems] = useState<Record<string, string>>({});
  const submit = () => {
    const found = wrong(schema, value, true);
    setProblems(found);
    if (Object.keys(found).length === 0) give({ interruptId: i.id, status: "resolved", payload: value });
  };
  return (
    <form
      className="stack" noValidate
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
    >
      <ValueEditor label="Answer as JSON" schema={schema} value={value} onChange={setValue} problems={problems} />
      <div className="row wraps">
        <button type="submit" className="button primary" disabled={busy}>
          Answer
        </button>
        <button type="button" className="button" disabled={busy} onClick={() => give({ interruptId: i.id, status: "cancelled" })}>
          Do not answer
        </button>
      </div>
    </form>
  );
}

