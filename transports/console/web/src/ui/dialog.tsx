import { useEffect, useId, useRef, type ReactNode } from "react";
import * as icons from "./icons";

/** Dialog is a modal window. Escape, the close button and a click outside call onClose. */
export function Dialog({ title, onClose, children, footer }: { title: string; onClose: () => void; children: ReactNode; footer?: ReactNode }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    dialog?.querySelector<HTMLElement>(".body input, .body textarea, .body select")?.focus(); // not the close button, which comes first
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      className="dialog"
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onMouseDown={(e) => e.target === ref.current && onClose()}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" className="button plain icon small" aria-label="Close" onClick={onClose}>
          <icons.Close />
        </button>
      </header>
      <div className="body">{children}</div>
      {footer && <footer>{footer}</footer>}
    </dialog>
  );
}

/** Confirm asks for confirmation of an irreversible action. */
export function Confirm({ title, children, act, onAct, onClose, busy = false }: {
  title: string;
  children: ReactNode;
  act: string;
  onAct: () => void;
  onClose: () => void;
  busy?: boolean;
}) {
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <button type="button" className="button" onClick={onClose}>
            Keep
          </button>
          <button type="button" className="button danger" disabled={busy} onClick={onAct}>
            {act}
          </button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
