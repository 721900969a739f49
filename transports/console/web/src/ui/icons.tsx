import type { ReactNode } from "react";

function icon(shape: ReactNode) {
  return function Icon() {
    return (
      <svg viewBox="0 0 20 20" width="1rem" height="1rem" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
        {shape}
      </svg>
    );
  };
}

export const Brand = icon(
  <>
    <path d="M4.2 15.8 16 4" strokeWidth="2" />
    <circle cx="4.8" cy="15.2" r="2" fill="currentColor" stroke="none" />
    <path d="M9.5 16.2h7M12.6 12.6h3.9" opacity=".55" />
  </>,
);
export const Overview = icon(<path d="M3 16V9M8 16V4M13 16v-5M17 16V7" />);
export const Runs = icon(<path d="M3 5h9M3 10h14M3 15h6" />);
export const Threads = icon(<path d="M3 4.5h14v9H9l-4 3v-3H3z" />);
export const Playground = icon(<path d="M6 4.5v11l9-5.5z" />);
export const Offers = icon(
  <>
    <rect x="3" y="3" width="6" height="6" rx="1.5" />
    <rect x="11" y="11" width="6" height="6" rx="1.5" />
    <path d="M9 6h3a2 2 0 0 1 2 2v3" />
  </>,
);
export const Waiting = icon(
  <>
    <circle cx="10" cy="10" r="7" />
    <path d="M10 6v4l2.5 2" />
  </>,
);
export const Admin = icon(
  <>
    <path d="M10 2.8 16 5v4.6c0 3.6-2.4 6.3-6 7.6-3.6-1.3-6-4-6-7.6V5z" />
    <path d="m7.5 9.8 1.9 1.9 3.2-3.5" />
  </>,
);
export const Menu = icon(<path d="M3 6h14M3 10h14M3 14h14" />);
export const Close = icon(<path d="m5 5 10 10M15 5 5 15" />);
export const Copy = icon(
  <>
    <rect x="7" y="7" width="9.5" height="9.5" rx="2" />
    <path d="M13 7V5.5A2 2 0 0 0 11 3.500H5.500a2 2 0 0 0-2 2V11a2 2 0 0 0 2 2H7" />
  </>,
);
export const Check = icon(<path d="m4 10.500 4 4 8-9" />);
export const Cross = icon(<path d="m5.500 5.500 9 9M14.500 5.500l-9 9" />);
export const Stop = icon(<rect x="5" y="5" width="10" height="10" rx="1.500" />);
export const Dot = icon(<circle cx="10" cy="10" r="4" fill="currentColor" stroke="none" />);
export const Ring = icon(<circle cx="10" cy="10" r="5" />);
export const Dash = icon(<path d="M5 10h10" />);
export const Pause = icon(<path d="M7.500 5v10M12.500 5v10" strokeWidth="2.200" />);
export const Right = icon(<path d="m8 5 5 5-5 5" />);
export const Down = icon(<path d="m5 8 5 5 5-5" />);
export const Search = icon(
  <>
    <circle cx="9" cy="9" r="5" />
    <path d="m13 13 4 4" />
  </>,
);
export const Warn = icon(
  <>
    <path d="M10 3.500 17.500 16.500h-15z" />
    <path d="M10 8.500v3.500M10 14.300v.1" />
  </>,
);
export const Sun = icon(
  <>
    <circle cx="10" cy="10" r="3.500" />
    <path d="M10 2v2M10 16v2M2 10h2M16 10h2M4.300 4.300l1.400 1.400M14.300 14.300l1.400 1.400M4.300 15.700l1.400-1.400M14.300 5.700l1.400-1.400" />
  </>,
);
export const Moon = icon(<path d="M16 12.500A7 7 0 0 1 7.500 4a6.500 6.500 0 1 0 8.500 8.500z" />);
export const Auto = icon(
  <>
    <circle cx="10" cy="10" r="6.500" />
    <path d="M10 3.500a6.500 6.500 0 0 1 0 13z" fill="currentColor" />
  </>,
);
export const Tool = icon(<path d="M12.500 3.500a4 4 0 0 0-3.800 5.300L3.500 14l2.500 2.500 5.200-5.200a4 4 0 0 0 5-5.300l-2.300 2.300-2.200-.5-.5-2.200 2.300-2.300a4 4 0 0 0-1-.1z" />);
export const Thought = icon(<path d="M10 3a5 5 0 0 0-3 9c.6.500 1 1.200 1 2h4c0-.8.4-1.500 1-2a5 5 0 0 0-3-9zM8.500 17h3" />);
export const Model = icon(<path d="M6 6h8v8H6zM8 3v3M12 3v3M8 14v3M12 14v3M3 8h3M3 12h3M14 8h3M14 12h3" />);
export const Person = icon(
  <>
    <circle cx="10" cy="7" r="3" />
    <path d="M4 17c.5-3.500 3-5 6-5s5.500 1.500 6 5" />
  </>,
);
export const Refresh = icon(<path d="M16 10a6 6 0 1 1-1.800-4.300M16 3v3.500h-3.500" />);
export const Edit = icon(<path d="m4 16 .8-3.200L13 4.500l2.500 2.500-8.300 8.300z" />);
export const Trash = icon(<path d="M4 6h12M8 6V4h4v2M6 6l.7 10.500h6.600L14 6" />);
export const Plus = icon(<path d="M10 4v12M4 10h12" />);
export const Send = icon(<path d="M3.500 10 16.500 4l-4 12.500-3-5z" />);
export const Clip = icon(<path d="m14.500 9.500-5 5a3 3 0 0 1-4.300-4.300l6-6a2 2 0 0 1 2.900 2.900l-5.800 5.700a1 1 0 0 1-1.400-1.400l5-5" />);
export const External = icon(<path d="M8 4.500H4.500v11h11V12M11.500 3.500h5v5M16.500 3.500l-7 7" />);
export const Keyboard = icon(
  <>
    <rect x="2.500" y="5" width="15" height="10" rx="2" />
    <path d="M6 12.500h8M6 8.500h.1M9 8.500h.1M12 8.500h.1M14.500 8.500h.1" />
  </>,
);
export const Rows = icon(<path d="M3.500 5h13M3.500 8.300h13M3.500 11.700h13M3.500 15h13" />);
