import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { linter } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";

interface Props {
  value: string;
  onChange?: (value: string) => void; // without it the editor is read-only
  label: string;
  height?: number; // px, default the height of the text
}

const theme = EditorView.theme({
  "&": { fontSize: "0.8125rem", backgroundColor: "var(--sunken)", color: "var(--ink)", borderRadius: "7px", maxHeight: "60vh" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--ink-3)", border: "0" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)" },
});

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--violet)" },
]);

/** CodeMirror edits JSON. It is in a shadow root, where its styles need no exception from the Content-Security-Policy. */
export default function CodeMirror({ value, onChange, label, height }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const change = useRef(onChange);
  change.current = onChange;
  const readOnly = onChange === undefined;
  useEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: value,
        extensions: [
          lineNumbers(), foldGutter(), history(), indentOnInput(), bracketMatching(), json(), theme, syntaxHighlighting(colours),
          EditorView.lineWrapping, EditorState.readOnly.of(readOnly), EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          readOnly ? [] : linter(jsonParseLinter()),
          keymap.of([...defaultKeymap, ...historyKeymap, ...foldKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) change.current?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
    // Typing does not recreate the editor; only another label does.
  }, [label, readOnly]);
  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);
  return <div ref={host} className="editor" style={height ? { minHeight: height } : undefined} />;
}
