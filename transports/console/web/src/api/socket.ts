import { ticket } from "./client";
import { session } from "./session";
import type { Logged, LogEvent } from "./types";

/** Follower is told what happens on a thread from a place in its log on. */
export interface Follower {
  /** All events behind that id will be told: it is for the follower to have read those before. Called once. */
  from(id: number): void;
  /** Events in the log's order, each once. */
  events(list: Logged[]): void;
  /** There is no such thread, or it is not the caller's. */
  gone(detail: string): void;
}

interface Feed {
  last: number; // the latest id that was told; -1 before the server has said where it begins
  ref: number; // of the subscription that is asked for
  followers: Set<Follower>;
}

interface Frame {
  op: "ack" | "error" | "event";
  ref?: number;
  threadId?: string;
  id?: number;
  event?: LogEvent;
  detail?: string;
  result?: { threadId: string; afterEventId?: number };
}

const path = "/api/v1/ws";
const unused = 5_000; // ms after which a socket that nobody needs is closed

/**
 * Socket follows any number of threads over one connection, as browsers allow only six event streams to a server over
 * all tabs. It reconnects by itself behind the last event it has told, so that none is missing and none told twice.
 */
export class Socket {
  private readonly projectId: string;
  private readonly feeds = new Map<string, Feed>();
  private readonly watchers = new Set<() => void>();
  private ws: WebSocket | null = null;
  private opening = false;
  private closed = false;
  private failures = 0;
  private refs = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Whether the connection is there, or not needed. */
  connected = true;

  constructor(projectId: string) {
    this.projectId = projectId;
  }

  /** follow tells follower of a thread until the returned function is called. */
  follow(threadId: string, follower: Follower): () => void {
    let feed = this.feeds.get(threadId);
    if (!feed) {
      feed = { last: -1, ref: 0, followers: new Set() };
      this.feeds.set(threadId, feed);
      if (this.open) this.subscribe(threadId, feed);
    } else if (feed.last >= 0) {
      const at = feed.last;
      queueMicrotask(() => follower.from(at));
    }
    feed.followers.add(follower);
    void this.connect();
    return () => this.unfollow(threadId, follower);
  }

  /** watch calls tell when connected changes. */
  watch(tell: () => void) {
    this.watchers.add(tell);
    return () => this.watchers.delete(tell);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.feeds.clear();
    this.ws?.close(1000);
  }

  private get open() {
    return this.ws?.readyState === WebSocket.OPEN;
  }

  private unfollow(threadId: string, follower: Follower) {
    const feed = this.feeds.get(threadId);
    if (!feed?.followers.delete(follower) || feed.followers.size > 0) return;
    this.feeds.delete(threadId);
    if (this.open) this.send({ op: "unsubscribe", ref: ++this.refs, threadId });
    if (this.feeds.size === 0) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.feeds.size === 0 && this.ws?.close(1000), unused);
    }
  }

  private async connect() {
    if (this.ws || this.opening || this.closed || this.feeds.size === 0) return;
    this.opening = true;
    try {
      const query = [`projectId=${encodeURIComponent(this.projectId)}`, await ticket(path, this.projectId)];
      const url = `${location.origin.replace(/^http/, "ws")}${path}?${query.filter(Boolean).join("&")}`;
      this.begin(new WebSocket(url, "baton.v1"));
    } catch {
      this.later();
    } finally {
      this.opening = false;
    }
  }

  private begin(ws: WebSocket) {
    this.ws = ws;
    ws.onopen = () => {
      this.failures = 0;
      this.tell(true);
      for (const [threadId, feed] of this.feeds) this.subscribe(threadId, feed);
    };
    ws.onmessage = ({ data }) => this.take(JSON.parse(String(data)) as Frame);
    ws.onclose = ({ code }) => {
      this.ws = null;
      if (code === 4401) session.set("");
      this.later();
    };
  }

  private later() {
    if (this.closed || this.feeds.size === 0) return;
    this.tell(false);
    const wait = Math.min(5_000, 250 * 2 ** this.failures++) * (0.75 + Math.random() / 2);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.connect(), wait);
  }

  private tell(connected: boolean) {
    if (connected === this.connected) return;
    this.connected = connected;
    for (const tell of this.watchers) tell();
  }

  private subscribe(threadId: string, feed: Feed) {
    feed.ref = ++this.refs;
    this.send({ op: "subscribe", ref: feed.ref, threadId, afterEventId: feed.last < 0 ? "latest" : feed.last });
  }

  private send(command: object) {
    this.ws?.send(JSON.stringify(command));
  }

  private take(frame: Frame) {
    if (frame.op === "event") this.event(frame);
    else if (frame.op === "ack") this.acknowledged(frame);
    else this.refused(frame);
  }

  private event({ threadId = "", id, event }: Frame) {
    const feed = this.feeds.get(threadId);
    if (!feed || !event) return;
    if (id !== undefined) {
      if (id <= feed.last) return;
      feed.last = id;
    }
    for (const f of feed.followers) f.events([{ id: id ?? feed.last, event }]);
  }

  private acknowledged({ ref, result }: Frame) {
    const feed = this.feeds.get(result?.threadId ?? "");
    if (!feed || feed.ref !== ref || feed.last >= 0 || result?.afterEventId === undefined) return;
    feed.last = result.afterEventId;
    for (const f of feed.followers) f.from(feed.last);
  }

  private refused({ ref, threadId, detail = "" }: Frame) {
    for (const [name, feed] of this.feeds) {
      if (name !== threadId && feed.ref !== ref) continue;
      this.feeds.delete(name);
      for (const f of feed.followers) f.gone(detail);
    }
  }
}
