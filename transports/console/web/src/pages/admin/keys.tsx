import { useId, useState } from "react";
import { useKeysOf, useMakeKey, useRevokeKey, type Key } from "../../api/admin";
import { say } from "../../api/problem";
import type { Role } from "../../api/types";
import { Ago, Clock, CopyButton, Failure, Loading, Panel } from "../../ui/basics";
import { Confirm, Dialog } from "../../ui/dialog";
import { toast } from "../../ui/toast";

export function Keys() {
  const { data, error, refetch, hasNextPage, fetchNextPage } = useKeysOf();
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Key | null>(null);
  const revoke = useRevokeKey();
  if (error && !data) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading />;
  const keys = data.pages.flatMap((p) => p.items);
  return (
    <Panel
      flush title="Keys"
      actions={
        <button type="button" className="button small" onClick={() => setMaking(true)}>
          Make a key
        </button>
      }
    >
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Keys">
        <table className="table">
          <thead>
            <tr>
              {["Id", "Name", "User", "Role", "Made", "Ends", "State"].map((name) => (
                <th key={name}>{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {keys.map((k) => (
              <tr key={k.id}>
                <td className="mono">{k.id}</td>
                <td>{k.name}</td>
                <td>{k.user}</td>
                <td>{k.role}</td>
                <td>
                  <Ago at={k.createdAt} />
                </td>
                <td>{k.expiresAt ? <Clock at={k.expiresAt} /> : "never"}</td>
                <td>
                  {k.revokedAt ? (
                    <span className="muted">revoked</span>
                  ) : (
                    <button type="button" className="button plain small danger" aria-label={`Revoke ${k.name ?? k.id}`} onClick={() => setRevoking(k)}>
                      Revoke
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hasNextPage && (
        <button type="button" className="button plain" onClick={() => void fetchNextPage()}>
          More
        </button>
      )}
      {making && <Make onClose={() => setMaking(false)} />}
      {revoking && (
        <Confirm
          title="Revoke this key?" act="Revoke key" busy={revoke.isPending} onClose={() => setRevoking(null)}
          onAct={() =>
            revoke.mutate(revoking.id, {
              onSuccess: () => toast("Key revoked."),
              onError: (e) => toast(say(e), "bad"),
              onSettled: () => setRevoking(null),
            })
          }
        >
          <p className="wrap">
            Whoever uses the key {revoking.name ?? revoking.id} of {revoking.user} is refused from now on.
          </p>
        </Confirm>
      )}
    </Panel>
  );
}

const roles: Role[] = ["user", "viewer", "operator", "admin"];

function Make({ onClose }: { onClose: () => void }) {
  const id = useId();
  const [user, setUser] = useState("");
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("user");
  const [ends, setEnds] = useState("");
  const make = useMakeKey();
  if (make.data) {
    return (
      <Dialog title="The key" onClose={onClose}>
        <div className="stack">
          <p>Copy it now. It cannot be shown again.</p>
          <pre className="code wraps" tabIndex={0}>
            {make.data.key}
          </pre>
          <CopyButton text={make.data.key} />
        </div>
      </Dialog>
    );
  }
  const submit = () => make.mutate({ user: user.trim(), role, ...(name.trim() && { name: name.trim() }), ...(ends && { expiresAt: new Date(ends).toISOString() }) });
  return (
    <Dialog
      title="Make a key" onClose={onClose}
      footer={
        <button type="button" className="button primary" disabled={user.trim() === "" || make.isPending} onClick={submit}>
          Make it
        </button>
      }
    >
      <div className="stack">
        <div className="field">
          <label className="label" htmlFor={`${id}-user`}>User</label>
          <input id={`${id}-user`} className="input" autoFocus value={user} onChange={(e) => setUser(e.target.value)} />
        </div>
        <div className="field">
          <label className="label" htmlFor={`${id}-role`}>Role</label>
          <select id={`${id}-role`} className="input" value={role} onChange={(e) => setRole(e.target.value as Role)}>
            {roles.map((r) => (
              <option key={r}>{r}</option>
            ))}
          </select>
        </div>
        <div className="field">
          <label className="label" htmlFor={`${id}-name`}>Name (optional)</label>
          <input id={`${id}-name`} className="input" value={name} onChange={(e) => setName(e.target.value)} />
        </div>
        <div className="field">
          <label className="label" htmlFor={`${id}-ends`}>Ends (optional)</label>
          <input id={`${id}-ends`} className="input" type="datetime-local" value={ends} onChange={(e) => setEnds(e.target.value)} />
        </div>
        {make.error && <Failure error={make.error} />}
      </div>
    </Dialog>
  );
}
