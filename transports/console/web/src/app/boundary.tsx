import { Component, type ReactNode } from "react";

interface Props {
  at: string; // where the page is: another address is another try
  children: ReactNode;
}

/** Boundary shows that a page has failed where else nothing would be shown at all. */
export class Boundary extends Component<Props, { error: unknown; at: string }> {
  override state = { error: undefined, at: this.props.at };

  static getDerivedStateFromError(error: unknown) {
    return { error: error ?? "unknown" };
  }

  static getDerivedStateFromProps({ at }: Props, state: { at: string }) {
    return at === state.at ? null : { error: undefined, at };
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <div className="page" role="alert">
        <header className="page-head">
          <h1>This page has failed</h1>
        </header>
        <p className="wrap">It is a mistake of the console’s own: {String(this.state.error)}</p>
        <div>
          <button type="button" className="button" onClick={() => this.setState({ error: undefined })}>
            Try again
          </button>
        </div>
      </div>
    );
  }
}
