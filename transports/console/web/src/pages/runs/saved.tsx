import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { useLocation } from "wouter";
import { ask } from "../../api/client";
import { useSearch } from "../../app/address";
import { useProject } from "../../app/context";
import { Failure } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { failed } from "../../ui/toast";

interface View {
  name: string;
  query: string;
}

/** Saved is the user's saved filters: one is chosen, saved or removed. */
export function Saved({ filtered }: { filtered: boolean }) {
  const project = useProject();
  const queries = useQueryClient();
  const [path, go] = useLocation();
  const query = useSearch();
  const [naming, setNaming] = useState(false);
  const url = `/api/v1/me/views?projectId=${encodeURIComponent(project)}`;
  const { data } = useQuery({ queryKey: ["views", project], queryFn: () => ask<{ items: View[] }>(url) });
  const views = data?.items ?? [];
  const current = views.find((v) => v.query === query);
  const change = useMutation({
    mutationFn: async (next: (views: View[]) => View[]) => {
      const { items } = await ask<{ items: View[] }>(url); // another tab may have changed them
      return ask<{ items: View[] }>(url, { method: "PUT", body: JSON.stringify({ items: next(items) }) });
    },
    onSuccess: (now) => queries.setQueryData(["views", project], now),
  });
  return (
    <>
      {views.length > 0 && (
        <select
          className="input" aria-label="Saved filters" value={current?.name ?? ""}
          onChange={(e) => {
            const chosen = views.find((v) => v.name === e.target.value);
            go(chosen?.query ? `${path}?${chosen.query}` : path);
          }}
        >
          <option value="">Saved filters</option>
          {views.map((v) => (
            <option key={v.name}>{v.name}</option>
          ))}
        </select>
      )}
      {filtered && !current && (
        <button type="button" className="button plain" onClick={() => setNaming(true)}>
          Save
        </button>
      )}
      {current && (
        <button
          type="button" className="button plain" disabled={change.isPending}
          onClick={() => change.mutate((list) => list.filter((v) => v.name !== current.name), { onError: failed })}
        >
          Remove from saved
        </button>
      )}
      {naming && (
        <Naming
          busy={change.isPending} error={change.error} onClose={() => setNaming(false)}
          save={(name) => change.mutate((list) => [...list.filter((v) => v.name !== name), { name, query }], { onSuccess: () => setNaming(false) })}
        />
      )}
    </>
  );
}

function Naming({ busy, error, save, onClose }: { busy: boolean; error: unknown; save: (name: string) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const id = useId();
  return (
    <Dialog
      title="Save these filters"
      onClose={onClose}
      footer={
        <button type="button" className="button primary" disabled={busy || name.trim() === ""} onClick={() => save(name.trim())}>
          Save
        </button>
      }
    >
      <div className="stack">
        <div className="field">
          <label className="label" htmlFor={id}>
            Name
          </label>
          <input id={id} className="input" autoFocus maxLength={200} value={name} onChange={(e) => setName(e.target.value)} />
          <span className="hint">Only you see it. Saving under a name again replaces it.</span>
        </div>
        {error !== null && <Failure error={error} />}
      </div>
    </Dialog>
  );
}
