import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useUnit } from "../../ui/basics";

export interface Series {
  name: string;
  colour: string; // a CSS token, as --good
  values: (number | null)[];
  fill?: boolean;
  dashed?: boolean;
}

interface Props {
  label: string; // description for screen readers
  times: number[]; // seconds since 1970
  series: Series[];
  format: (value: number) => string;
  least: number; // least upper end of the scale
  bars?: number; // width of a bar in seconds, for stacked bars; without it, lines
}

/** Chart draws values over time. Its label describes the lines, and its legend shows the values at the pointer. */
export function Chart({ label, times, series, format, least, bars }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const unit = useUnit();
  const names = series.map((s) => `${s.name}${sparse(s.values)}`).join();
  const data = useMemo<uPlot.AlignedData>(() => [times, ...(bars ? stacked(series) : series.map((s) => s.values))], [times, series, bars]);
  const latest = useRef(data);
  latest.current = data;
  const raw = useRef(series);
  raw.current = series;
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const token = (name: string) => getComputedStyle(element).getPropertyValue(name).trim();
    const style = resolved(element, ["--ink-3", "--line", ...series.map((s) => s.colour)]);
    const size = () => ({ width: element.clientWidth, height: 180 * unit });
    const axis = { stroke: style["--ink-3"], font: `${11 * unit}px ${token("--sans")}`, grid: { stroke: style["--line"], width: 1 }, ticks: { show: false } };
    const drawn = new uPlot(
      {
        ...size(), padding: [12 * unit, 16 * unit, 0, 0],
        cursor: { points: { size: 7 }, drag: { x: false, y: false } },
        scales: { ...(bars && { x: { range: (_: uPlot, min: number, max: number): uPlot.Range.MinMax => [min - bars / 2, max + bars / 2] } }), y: { range: (_, __, max) => [0, Math.max(max * 1.1, least)] } },
        axes: [
          { ...axis, size: 28 * unit, space: 50 * unit, grid: { show: false }, values: (_, ticks) => ticks.map(tick) },
          { ...axis, size: 58 * unit, space: 30 * unit, values: (_, ticks) => ticks.map((t) => (t === 0 ? "0" : format(t))) },
        ],
        legend: { live: true },
        series: [
          { label: "", value: (_, v: number | null) => (v === null ? "" : tick(v)) },
          ...series.map((s, i) => ({
            label: s.name, stroke: style[s.colour], width: bars ? 0 : 1.5 * unit, spanGaps: false, points: { show: !bars && sparse(s.values), size: 8 * unit, fill: style[s.colour] },
            ...(bars && { paths: uPlot.paths.bars?.({ size: [0.72, 36, 2] }), fill: style[s.colour] }),
            ...(!bars && s.fill ? { fill: `color-mix(in srgb, ${style[s.colour]} 16%, transparent)` } : {}),
            ...(s.dashed ? { dash: [4, 3] } : {}),
            value: (_: uPlot, __: number | null, ___: number, at: number | null) => (at === null ? "" : told(raw.current[i]?.values[at], format)),
          })),
        ],
      },
      latest.current,
      element,
    );
    plot.current = drawn;
    const resize = new ResizeObserver(() => drawn.setSize(size()));
    resize.observe(element);
    return () => {
      resize.disconnect();
      drawn.destroy();
    };
    // setData updates the values; other lines or another theme need a new drawing.
  }, [names, theme, unit]);
  useEffect(() => plot.current?.setData(data), [data]);
  return <div ref={host} className="chart" role="img" aria-label={label} />;
}

const told = (v: number | null | undefined, format: Props["format"]) => (v === null || v === undefined ? "–" : format(v));

// Each series plus all that follow it: they are drawn over each other, the last one in front.
function stacked(series: Series[]): (number | null)[][] {
  return series.map((s, i) => s.values.map((_, at) => series.slice(i).reduce((n, { values }) => n + (values[at] ?? 0), 0) || null));
}

// A single value between two missing ones makes no line.
function sparse(values: (number | null)[]) {
  return values.filter((v) => v !== null).length < values.length / 2;
}

const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

function tick(seconds: number): string {
  const at = new Date(seconds * 1_000);
  return at.getHours() === 0 && at.getMinutes() === 0 ? day.format(at) : hour.format(at);
}

// Canvas does not support light-dark(): a new element computes the colour.
function resolved(element: HTMLElement, names: string[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of names) {
    const probe = element.appendChild(document.createElement("i"));
    probe.style.color = `var(${name})`;
    found[name] = getComputedStyle(probe).color;
    probe.remove();
  }
  return found;
}

const dark = matchMedia("(prefers-color-scheme: dark)");

function useTheme(): string {
  return useSyncExternalStore(
    (tell) => {
      const chosen = new MutationObserver(tell);
      chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });
      dark.addEventListener("change", tell);
      return () => {
        chosen.disconnect();
        dark.removeEventListener("change", tell);
      };
    },
    () => `${document.documentElement.dataset.theme ?? ""}${dark.matches}`,
  );
}
