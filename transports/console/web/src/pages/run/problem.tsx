import type { OutputError } from "../../api/types";
import { CopyIcon } from "../../ui/basics";
import * as icons from "../../ui/icons";
import { JsonTree } from "../../ui/json";

/** Problem is the complete error of a run. */
export function Problem({ error }: { error: OutputError }) {
  const details = error.details && Object.keys(error.details).length > 0;
  return (
    <div className="notice" data-tone="bad">
      <icons.Warn />
      <div className="grow stack">
        <p className="wrap">
          <code>{error.code}</code> {error.message}
        </p>
        {error.retryable && <p className="muted">A retry may succeed.</p>}
        {details && <JsonTree value={error.details} />}
      </div>
      <CopyIcon label="Copy error" text={() => JSON.stringify(error, null, 2)} />
    </div>
  );
}
