import { Link } from "wouter";
import { useWaiting } from "../../api/queries";
import type { Waiting } from "../../api/types";
import { useMayControl, useSeesOthers } from "../../app/context";
import { runPath } from "../../app/search";
import { Answer } from "../../ui/answer";
import { Ago, Empty, Failure, Loading, Panel } from "../../ui/basics";

/** The page Waiting for you: what runs ask people, oldest first. */
export default function Page() {
  const { data, error, refetch } = useWaiting();
  return (
    <div className="page">
      <header className="page-head">
        <h1>Waiting for you</h1>
      </header>
      {error && !data && <Failure error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data?.items.length === 0 && <Empty title="Nothing waits">When a run asks for leave or for an answer, it is here, and is answered here.</Empty>}
      {data && byRun(data.items).map((asked) => <Asked key={asked.map((w) => w.id).join()} asked={asked} />)}
      {data?.nextCursor && <p className="muted">More wait than are shown: they follow as these are answered.</p>}
    </div>
  );
}

// A run is answered as a whole.
function byRun(items: Waiting[]): Waiting[][] {
  const runs = new Map<string, Waiting[]>();
  for (const w of items) {
    const key = `${w.conversationId}/${w.runId}`;
    runs.set(key, [...(runs.get(key) ?? []), w]);
  }
  return [...runs.values()];
}

function Asked({ asked }: { asked: Waiting[] }) {
  const [first] = asked;
  const others = useSeesOthers();
  const may = useMayControl(first?.user);
  if (!first) return null;
  return (
    <Panel
      className="waits"
      title={first.agent ?? "Workflow"}
      actions={
        <>
          {others && <span className="muted clip">{first.user}</span>}
          <span className="muted">
            <Ago at={first.createdAt} />
          </span>
          <Link href={runPath({ id: first.runId, user: first.user })} className="nowrap">
            The run
          </Link>
        </>
      }
    >
      {may ? <Answer runId={first.runId} user={others ? first.user : undefined} interrupts={asked} /> : asked.map((w) => <p key={w.id}>{w.message}</p>)}
    </Panel>
  );
}
