import type { Item } from "./timeline";

const gap = 0.04; // width of a wait, as a share of the whole

/** Scale maps times to 0..1. It shortens waits, which would hide everything else. */
export class Scale {
  readonly from: number;
  /** The run's execution time in milliseconds. */
  readonly worked: number;
  private readonly waits: { start: number; end: number }[];
  private readonly width: number; // of a wait, in milliseconds of the scale
  private readonly whole: number;

  constructor(items: Item[], now: number) {
    this.from = items[0]?.start ?? now;
    let end = this.from;
    for (const i of items) end = Math.max(end, i.end ?? now);
    this.waits = items.filter((i) => i.kind === "wait").map((i) => ({ start: i.start, end: Math.max(i.start, i.end ?? now) }));
    const idle = this.waits.reduce((sum, w) => sum + w.end - w.start, 0);
    this.worked = Math.max(1, end - this.from - idle);
    this.width = this.worked * gap;
    this.whole = this.worked + this.waits.length * this.width;
  }

  /** at returns the position of a time. */
  at(time: number): number {
    let t = time - this.from;
    for (const w of this.waits) {
      if (time <= w.start) break;
      const passed = Math.min(time, w.end) - w.start;
      const part = w.end > w.start ? passed / (w.end - w.start) : 1;
      t += part * this.width - passed;
    }
    return Math.min(1, Math.max(0, t / this.whole));
  }
}
