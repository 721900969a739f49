import { useId, useState, type FormEvent } from "react";
import { session } from "../api/session";
import * as icons from "../ui/icons";

/** SignIn asks for a key or a token. wrong is why the last one was refused. */
export function SignIn({ wrong, retry }: { wrong: string; retry: () => void }) {
  const [credential, setCredential] = useState("");
  const [everywhere, setEverywhere] = useState(false);
  const id = useId();
  const submit = (e: FormEvent) => {
    e.preventDefault();
    session.set(credential, everywhere);
    retry();
  };
  return (
    <main className="signin">
      <form onSubmit={submit} className="panel">
        <div className="brand">
          <icons.Brand /> Baton
        </div>
        <h1>Sign in</h1>
        <p className="muted">Use an API key, or a token of your identity provider.</p>
        <div className="field">
          <label className="label" htmlFor={id}>
            Key or token
          </label>
          <input
            id={id} className="input mono" type="password" autoComplete="off" spellCheck={false} required
            value={credential} aria-invalid={wrong !== ""} aria-describedby={`${id}-about`}
            onChange={(e) => setCredential(e.target.value)}
          />
          <span id={`${id}-about`} className={wrong ? "wrong" : "hint"} role={wrong ? "alert" : undefined}>
            {wrong || (everywhere ? "It is stored in this browser until you sign out." : "It is stored in this tab only, until you close the tab.")}
          </span>
        </div>
        <label className="check">
          <input type="checkbox" checked={everywhere} onChange={(e) => setEverywhere(e.target.checked)} />
          Sign in for all tabs of this browser
        </label>
        <button type="submit" className="button primary" disabled={credential.trim() === ""}>
          Sign in
        </button>
      </form>
    </main>
  );
}
