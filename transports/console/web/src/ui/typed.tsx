import { useEffect, useRef, useState } from "react";

interface Props {
  label: string;
  placeholder?: string;
  className?: string;
  value: string;
  set: (value: string) => void;
}

/** Typed is a text field that reports its text when typing stops. */
export function Typed({ label, placeholder = label, className = "", value, set }: Props) {
  const [text, setText] = useState(value);
  const latest = useRef(set); // keeps other changes that were made meanwhile
  latest.current = set;
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => latest.current(text), 300);
    return () => clearTimeout(timer);
  }, [text, value]);
  return <input className={`input ${className}`} type="search" aria-label={label} placeholder={placeholder} value={text} onChange={(e) => setText(e.target.value)} />;
}
