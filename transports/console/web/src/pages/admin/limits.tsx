import { useLocation } from "wouter";
import { useSearch } from "../../app/address";
import { useLimits } from "../../api/queries";
import { useUsers } from "../../api/threads";
import type { Limits as All } from "../../api/types";
import { useMay, useMe, useSeesOthers } from "../../app/context";
import { Failure, Loading, Panel } from "../../ui/basics";
import { bytes, duration, number } from "../../ui/format";
import { Facts } from "./facts";

/** Limits are the limits of the caller, or of a user that an admin chooses, and of the project, with their current use. */
export function Limits() {
  const search = new URLSearchParams(useSearch());
  const [path, go] = useLocation();
  const [admin, others, me] = [useMay("admin"), useSeesOthers(), useMe()];
  const whose = (admin && others && search.get("user")) || "";
  const { data, error, refetch } = useLimits(true, whose);
  const choose = (user: string) => {
    search.delete("user");
    if (user && user !== me.user) search.set("user", user);
    go(`${path}?${search}`, { replace: true });
  };
  if (error && !data) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading />;
  const { user, project, server, sizes, timeouts, attachments, run } = data;
  const span = (seconds: number) => (seconds > 0 ? duration(seconds * 1_000) : "none");
  return (
    <div className="stack">
      {admin && others && <Whose user={whose} choose={choose} />}
      <div className="admin-panels">
        <Uses title={whose || "You"} share={user} />
        <Uses title="Project" share={project} />
        <Panel title="Server">
          <Facts
            facts={[
              ["Executing runs", number(server.running)],
              ["Their input", bytes(server.runningBytes)],
              ["Memory for their messages", bytes(server.runningMessages)],
              ["Executing runs of one agent", server.runningPerAgent ? number(server.runningPerAgent) : "no limit"],
              ["Runs queued", number(server.queued)],
              ["Queued runs per thread", number(server.queuedPerThread)],
              ["Events per run", run.events ? number(run.events) : "no limit"],
              ["A body", bytes(sizes.body)],
              ["A run’s body", bytes(sizes.input)],
              ["A run’s messages", bytes(sizes.messages)],
              ["A run takes", span(timeouts.run)],
              ["A step takes", span(timeouts.step)],
              ["A tool takes", span(timeouts.tool)],
              ["Approval timeout", span(timeouts.approval)],
            ]}
          />
        </Panel>
        {attachments && (
          <Panel title={whose ? `Attachments of ${whose}` : "Your attachments"}>
            <div className="stack">
              <Use name="Files" used={attachments.used.files} limit={attachments.files} />
              <Use name="Total size" used={attachments.used.bytes} limit={attachments.bytes} unit={bytes} />
              <Facts facts={[["A file", bytes(attachments.size)]]} />
            </div>
          </Panel>
        )}
      </div>
    </div>
  );
}

// Chooses the user. If there are too many users for a list, the name is typed.
function Whose({ user, choose }: { user: string; choose: (user: string) => void }) {
  const { data } = useUsers();
  return (
    <form
      className="row wraps admin-filters"
      onSubmit={(e) => {
        e.preventDefault();
        choose(String(new FormData(e.currentTarget).get("user")).trim());
      }}
    >
      <input key={user} className="input" type="search" name="user" aria-label="User" placeholder="Another user" list="users" maxLength={200} defaultValue={user} />
      <datalist id="users">{data?.items.map((u) => <option key={u.user} value={u.user} />)}</datalist>
      <button type="submit" className="button">
        Show
      </button>
    </form>
  );
}

type Share = All["user"] | All["project"];

function Uses({ title, share }: { title: string; share: Share }) {
  return (
    <Panel title={title}>
      <div className="stack">
        <Use name="Request burst" used={share.requests.used} limit={share.requests.burst} />
        <Use name="Open streams" used={share.streams.used} limit={share.streams.limit} />
        <Use name="Threads on WebSockets" used={share.subscriptions.used} limit={share.subscriptions.limit} />
        <Use name="Bytes in flight" used={share.inFlight.used} limit={share.inFlight.limit} unit={bytes} />
        <Use name="Runs executed" used={share.running.used} limit={share.running.limit} />
        <Use name="Runs queued" used={share.queued.used} limit={share.queued.limit} />
      </div>
    </Panel>
  );
}

function Use({ name, used, limit, unit = number }: { name: string; used: number; limit: number | null; unit?: (n: number) => string }) {
  return (
    <div>
      <div className="row">
        <span className="grow">{name}</span>
        <span className="num muted">
          {limit === null ? `${unit(used)}, no limit` : `${unit(used)} of ${unit(limit)}`}
        </span>
      </div>
      {limit !== null && <meter className="use" aria-label={name} min={0} max={limit} high={limit * 0.8} value={used} />}
    </div>
  );
}
