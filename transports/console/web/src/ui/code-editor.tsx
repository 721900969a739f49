import { lazy, Suspense, type ComponentProps } from "react";
import { part } from "../app/part";

const Editor = lazy(part(() => import("./code-mirror")));

/** CodeEditor edits JSON. It loads when it is first shown. */
export function CodeEditor(props: ComponentProps<typeof Editor>) {
  return (
    <Suspense fallback={<div className="code" style={{ minHeight: props.height ?? 160 }} />}>
      <Editor {...props} />
    </Suspense>
  );
}
