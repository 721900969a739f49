import { useEffect, useRef, useState } from "react";

interface Props {
  label: string;
  placeholder?: string;
  className?: string;
  value: string;
  set: (value: string) => void;
}

/** Typed is a text field that reports its text when typing stops. A value that changes meanwhile replaces what was typed. */
export function Typed({ label, placeholder = label, className = "", value, set }: Props) {
  const [text, setText] = useState(value);
  const latest = useRef(set); // keeps other changes that were made meanwhile
  latest.current = set;
  const reported = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const type = (typed: string) => {
    setText(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => latest.current((reported.current = typed)), 300);
  };
  useEffect(() => {
    if (value === reported.current) return;
    reported.current = value;
    clearTimeout(timer.current);
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return <input className={`input ${className}`} type="search" aria-label={label} placeholder={placeholder} value={text} onChange={(e) => type(e.target.value)} />;
}
