import { ended, ticket } from "./client";
import { parse } from "./json";
import type { Logged, LogEvent } from "./types";

/** Follower receives the events of a thread from a place in its log. */
export interface Follower {
  /** All events after the id will be delivered; the follower must have read the earlier ones. Called once. */
  from(id: number): void;
  /** Events in log order, each once. */
  events(list: Logged[]): void;
  /** The thread does not exist, or belongs to another user. */
  gone(detail: string): void;
}

interface Feed {
  last: number; // the last delivered id; -1 until the server has named the start
  ref: number; // of the requested subscription
  begun: boolean; // acknowledged: earlier messages belong to a previous subscription
  tail: boolean; // a new connection skips the events between
  followers: Set<Follower>;
}

interface Frame {
  op: "ack" | "error" | "event" | "changed";
  ref?: number;
  threadId?: string;
  id?: number;
  event?: LogEvent;
  detail?: string;
  code?: string;
  result?: { threadId?: string; afterEventId?: number; projectId?: string };
}

const path = "/api/v1/ws";
const unused = 5_000; // ms until an unused socket is closed
const again = 2_000; // ms until a command that a busy server has refused is repeated
const hopeless = /^(not_found|forbidden|invalid_)/; // codes of permanent refusals
const unseen = 20_000; // ms until the socket of a hidden tab is closed

/**
 * Socket follows any number of threads and the project's lists over one connection, because browsers allow only six event streams to a
 * server over all tabs. It reconnects after the last delivered event, so that events are neither lost nor repeated. A tab that is
 * hidden for a while has no connection, and reconnects when it is visible again.
 */
export class Socket {
  private readonly projectId: string;
  private readonly feeds = new Map<string, Feed>();
  private readonly watchers = new Set<() => void>();
  private readonly lists = new Set<() => void>();
  private ws: WebSocket | null = null;
  private opening = false;
  private closed = false;
  private asleep = false;
  private failures = 0;
  private refs = 0;
  private watching = 0; // the ref of the command that watches for changes
  private timer: ReturnType<typeof setTimeout> | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;

  /** Whether the socket is connected, or not needed. */
  connected = true;

  constructor(projectId: string) {
    this.projectId = projectId;
    document.addEventListener("visibilitychange", this.look);
  }

  /**
   * follow delivers a thread's events to the follower until the returned function is called. With tail, a connection that was lost continues
   * with the latest events, and from is called again.
   */
  follow(threadId: string, follower: Follower, tail = false): () => void {
    let feed = this.feeds.get(threadId);
    if (!feed) {
      feed = { last: -1, ref: 0, begun: false, tail, followers: new Set() };
      this.feeds.set(threadId, feed);
      if (this.open) this.subscribe(threadId, feed);
    } else if (feed.last >= 0) {
      const at = feed.last;
      queueMicrotask(() => follower.from(at));
    }
    feed.tail &&= tail;
    feed.followers.add(follower);
    void this.connect();
    return () => this.unfollow(threadId, follower);
  }

  /** changes calls its argument when the project's lists may have changed. */
  changes(tell: () => void): () => void {
    this.lists.add(tell);
    if (this.lists.size === 1) this.ring();
    void this.connect();
    return () => {
      this.lists.delete(tell);
      if (this.open && this.lists.size === 0) this.send({ op: "unwatch", ref: ++this.refs });
      this.rest();
    };
  }

  /** watch calls its argument when connected changes. */
  watch(tell: () => void) {
    this.watchers.add(tell);
    return () => this.watchers.delete(tell);
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.look);
    clearTimeout(this.timer);
    clearTimeout(this.hiding);
    this.feeds.clear();
    this.lists.clear();
    this.ws?.close(1000);
  }

  private get open() {
    return this.ws?.readyState === WebSocket.OPEN;
  }

  private get needed() {
    return !this.closed && !this.asleep && this.feeds.size + this.lists.size > 0;
  }

  private readonly look = () => {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.asleep = true;
        clearTimeout(this.timer);
        this.ws?.close(1000);
      }, unseen);
      return;
    }
    this.asleep = false;
    void this.connect();
  };

  private unfollow(threadId: string, follower: Follower) {
    const feed = this.feeds.get(threadId);
    if (!feed?.followers.delete(follower) || feed.followers.size > 0) return;
    this.feeds.delete(threadId);
    if (this.open) this.send({ op: "unsubscribe", ref: ++this.refs, threadId });
    this.rest();
  }

  private rest() {
    if (this.needed) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => !this.needed && this.ws?.close(1000), unused);
  }

  private async connect() {
    if (this.ws || this.opening || !this.needed) return;
    this.opening = true;
    try {
      const query = [`projectId=${encodeURIComponent(this.projectId)}`, await ticket(path, this.projectId)];
      if (!this.needed) return;
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
      this.ring();
    };
    ws.onmessage = ({ data }) => this.take(parse(String(data)) as Frame);
    ws.onclose = ({ code }) => {
      this.ws = null;
      if (code === 4401) ended();
      this.later();
    };
  }

  private later() {
    if (!this.needed) return;
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
    feed.begun = false;
    if (feed.tail) feed.last = -1;
    this.send({ op: "subscribe", ref: feed.ref, threadId, afterEventId: feed.last < 0 ? "latest" : feed.last });
  }

  private ring() {
    if (!this.open || this.lists.size === 0) return;
    this.watching = ++this.refs;
    this.send({ op: "watch", ref: this.watching });
  }

  private send(command: object) {
    this.ws?.send(JSON.stringify(command));
  }

  private take(frame: Frame) {
    if (frame.op === "event") this.event(frame);
    else if (frame.op === "changed") for (const tell of this.lists) tell();
    else if (frame.op === "ack") this.acknowledged(frame);
    else this.refused(frame);
  }

  private event({ threadId = "", id, event }: Frame) {
    const feed = this.feeds.get(threadId);
    if (!feed?.begun || !event) return;
    if (id !== undefined) {
      if (id <= feed.last) return;
      feed.last = id;
    }
    for (const f of feed.followers) f.events([{ id: id ?? feed.last, event }]);
  }

  private acknowledged({ ref, result }: Frame) {
    if (result?.projectId !== undefined) for (const tell of this.lists) tell(); // lists that were read before may be outdated
    const feed = this.feeds.get(result?.threadId ?? "");
    if (!feed || feed.ref !== ref || result?.afterEventId === undefined) return;
    feed.begun = true;
    if (feed.last >= 0) return;
    feed.last = result.afterEventId;
    for (const f of feed.followers) f.from(feed.last);
  }

  private refused({ ref, threadId, detail = "", code }: Frame) {
    if (ref === this.watching) setTimeout(() => this.ring(), again);
    for (const [name, feed] of this.feeds) {
      if (name !== threadId && feed.ref !== ref) continue;
      if (code === "already_subscribed") continue;
      if (!hopeless.test(code ?? "")) {
        setTimeout(() => this.open && this.feeds.get(name) === feed && this.subscribe(name, feed), again);
        continue;
      }
      this.feeds.delete(name);
      for (const f of feed.followers) f.gone(detail);
    }
  }
}
