import { part } from "../app/part";

/** CodeEditor edits JSON. It loads when it is first shown. */
export const CodeEditor = part(() => import("./code-mirror"), ({ height = 160 }) => <div className="code" style={{ minHeight: height }} />);
