import { ask } from "../api/client";
import { lost, Problem, say } from "../api/problem";
import type { Socket } from "../api/socket";
import type { Logged, LogEvent } from "../api/types";
import { Observable } from "./observable";
import { Timeline } from "./timeline";
import { Transcript } from "./transcript";

interface Page {
  data: { event_id: number; event: LogEvent }[];
  page_info: { next: string | null };
}

const pageSize = 500;
const atOnce = 4; // concurrent page requests
const pace = 150; // ms between two updates while the log is being read
const drawn = 30; // ms for the browser to draw the first page before the next ones are added

/**
 * RunLog is the log of one run: the stored events, in pages, and the live ones. It contains each event once and in the
 * order of the ids, however often the connection or the server was lost.
 */
export class RunLog extends Observable {
  readonly events: Logged[] = [];
  readonly timeline = new Timeline();
  readonly transcript = new Transcript();
  readonly types = new Map<string, number>(); // number of events of each type

  /** Whether all events that were stored at the last request have been read. */
  complete = false;
  /** The error of reading, "" for none. */
  problem = "";

  private readonly url: string;
  private readonly conversationId: string;
  private readonly runId: string;
  private readonly names: Set<string>; // of the run in its spans
  private early: Logged[] = []; // live events that arrived before all stored ones
  private stored = 0; // the last known id of the log
  private reading = false;
  private again = false;
  private ended = false;
  private unfollow: (() => void) | null = null;

  constructor(projectId: string, conversationId: string, runId: string) {
    super();
    const [project, conversation, run] = [projectId, conversationId, runId].map(encodeURIComponent);
    this.url = `/api/v1/conversations/${conversation}/agent-runs/${run}/events?projectId=${project}&projection=seed&limit=${pageSize}`;
    this.conversationId = conversationId;
    this.runId = runId;
    this.names = new Set([runId]);
  }

  get last(): number {
    return this.events.at(-1)?.id ?? 0;
  }

  /** read reads the stored events that are missing, at least up to the id stored. */
  async read(stored = 0) {
    this.stored = Math.max(this.stored, stored);
    this.again = true;
    if (this.reading) return;
    this.reading = true;
    while (this.again && !this.ended) {
      this.again = false;
      this.problem = await this.pages();
    }
    this.reading = false;
    this.complete = this.problem === "";
    if (this.complete) this.add(this.early.splice(0)); // otherwise they would follow a gap
    this.changed();
  }

  /** follow delivers live events; null ends it. */
  follow(socket: Socket | null) {
    this.unfollow?.();
    this.unfollow =
      socket?.follow(this.conversationId, {
        from: () => void this.read(),
        events: (list) => this.live(list),
        gone: (detail) => {
          this.problem = detail;
          this.changed();
        },
      }) ?? null;
  }

  /** begin sets the thread's state before the run. */
  begin(state: unknown) {
    this.transcript.states.start(state);
    this.changed();
  }

  end() {
    this.ended = true;
    this.follow(null);
  }

  // Reads all stored events after the last one, and returns the error, if any.
  private async pages(): Promise<string> {
    for (let failures = 0; !this.ended; ) {
      try {
        if (await this.some()) break;
        failures = 0;
      } catch (error) {
        if (!lost(error) && !(error instanceof Problem && error.status === 429)) {
          return say(error);
        }
        await new Promise((done) => setTimeout(done, Math.min(4_000, 250 * 2 ** failures++)));
      }
    }
    return "";
  }

  // Some pages after the last event, and whether they are the last ones. All pages but the last are full, so a page covers at least that
  // many ids, and the next page can be requested before it has arrived. Events in two pages are added once.
  private async some(): Promise<boolean> {
    const from = this.last;
    const many = Math.min(atOnce, Math.max(1, Math.ceil((this.stored - from) / pageSize)));
    const asked = Array.from({ length: many }, (_, i) => this.page(from + i * pageSize));
    for (const page of asked) page.catch(() => {}); // reported in order, below
    for (const page of asked) {
      const { data, page_info } = await page;
      if (this.ended) return true;
      this.add(data.map(({ event_id, event }) => ({ id: event_id, event })));
      if (page_info.next === null) return true;
      if (page === asked[0] && from === 0) await new Promise((done) => setTimeout(done, drawn));
    }
    return false;
  }

  private page(after: number): Promise<Page> {
    return ask<Page>(after > 0 ? `${this.url}&after_event_id=${after}` : this.url);
  }

  private live(list: Logged[]) {
    for (const { event } of list) {
      if (event.type === "RUN_STARTED" && event.parentRunId === this.runId && event.runId) this.names.add(event.runId);
    }
    const own = list.filter(({ event }) => this.names.has(event.runId ?? ""));
    if (this.complete && !this.reading) this.add(own);
    else this.early.push(...own);
  }

  private add(list: Logged[]) {
    for (const logged of list) {
      if (logged.id <= this.last) continue;
      const { type, runId } = logged.event;
      if (type === "RUN_STARTED" && runId) this.names.add(runId);
      this.events.push(logged);
      this.types.set(type, (this.types.get(type) ?? 0) + 1);
      this.timeline.push(logged);
      this.transcript.push(logged);
    }
    if (list.length > 0) this.changed(this.reading && this.events.length > pageSize ? pace : 0);
  }
}
