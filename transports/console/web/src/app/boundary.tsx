import { Component, type ReactNode } from "react";

interface Props {
  at?: unknown; // identifies the content; a change resets the boundary
  failed: (error: unknown, again: () => void) => ReactNode;
  children: ReactNode;
}

/** Boundary shows a replacement if its content fails to render. */
export class Boundary extends Component<Props, { error: unknown; at: unknown }> {
  override state = { error: undefined, at: this.props.at };

  static getDerivedStateFromError(error: unknown) {
    return { error: error ?? "unknown" };
  }

  static getDerivedStateFromProps({ at }: Props, state: { at: unknown }) {
    return at === state.at ? null : { error: undefined, at };
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return this.props.failed(this.state.error, () => this.setState({ error: undefined }));
  }
}

/** FailedPage is shown instead of a page that failed to render. */
export function FailedPage({ error, again }: { error: unknown; again: () => void }) {
  return (
    <div className="page" role="alert">
      <header className="page-head">
        <h1>This page has failed</h1>
      </header>
      <p className="wrap">It is a mistake of the console’s own: {String(error)}</p>
      <div>
        <button type="button" className="button" onClick={again}>
          Try again
        </button>
      </div>
    </div>
  );
}
