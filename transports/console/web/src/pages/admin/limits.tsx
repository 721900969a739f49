import { useLimits } from "../../api/queries";
import { Failure, Loading, Panel } from "../../ui/basics";
import { bytes, duration, number } from "../../ui/format";
import { Facts } from "./facts";

/** Limits are what the caller and the project may have, and what they have of it now. */
export function Limits() {
  const { data, error, refetch } = useLimits();
  if (error && !data) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading />;
  const { user, project, server, sizes, timeouts, attachments } = data;
  const span = (seconds: number) => (seconds > 0 ? duration(seconds * 1_000) : "none");
  return (
    <div className="admin-panels">
      <Uses title="You" share={user} />
      <Uses title="Project" share={project} />
      <Panel title="Server">
        <Facts
          facts={[
            ["Runs executed at once", number(server.running)],
            ["Runs queued", number(server.queued)],
            ["Runs queued of a thread", number(server.queuedPerThread)],
            ["A body", bytes(sizes.body)],
            ["A run’s body", bytes(sizes.input)],
            ["A run’s messages", bytes(sizes.messages)],
            ["A run takes", span(timeouts.run)],
            ["A step takes", span(timeouts.step)],
            ["A tool takes", span(timeouts.tool)],
            ["An approval waits", span(timeouts.approval)],
          ]}
        />
      </Panel>
      {attachments && (
        <Panel title="Attachments of a user">
          <Facts facts={[["A file", bytes(attachments.size)], ["Files", number(attachments.files)], ["All of them", bytes(attachments.bytes)]]} />
        </Panel>
      )}
    </div>
  );
}

type Share = NonNullable<ReturnType<typeof useLimits>["data"]>["user"];

function Uses({ title, share }: { title: string; share: Share }) {
  return (
    <Panel title={title}>
      <div className="stack">
        <Use name="Requests at once" used={share.requests.used} limit={share.requests.burst} />
        <Use name="Open streams" used={share.streams.used} limit={share.streams.limit} />
        <Use name="Runs executed" used={share.running.used} limit={share.running.limit} />
        <Use name="Runs queued" used={share.queued.used} limit={share.queued.limit} />
      </div>
    </Panel>
  );
}

function Use({ name, used, limit }: { name: string; used: number; limit: number | null }) {
  return (
    <div>
      <div className="row">
        <span className="grow">{name}</span>
        <span className="num muted">
          {number(used)} of {limit === null ? "any number" : number(limit)}
        </span>
      </div>
      {limit !== null && <meter className="use" aria-label={name} min={0} max={limit} high={limit * 0.8} value={used} />}
    </div>
  );
}
