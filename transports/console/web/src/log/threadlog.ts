import { ask } from "../api/client";
import { lost, say } from "../api/problem";
import type { Socket } from "../api/socket";
import type { Logged, ThreadMessages } from "../api/types";
import { Observable } from "./observable";
import { Transcript } from "./transcript";

/** ThreadLog is a thread's messages and state, live. */
export class ThreadLog extends Observable {
  readonly transcript = new Transcript(true);

  /** Whether the stored messages are loaded. */
  complete = false;
  /** Whether the thread exists: a thread without messages does not. */
  exists = true;
  problem = "";
  /** The run of the latest events, and whether it is open. */
  runId = "";
  running = false;
  /** Number of ended runs. A change means that data about runs on the server is outdated. */
  spans = 0;

  private readonly projectId: string;
  private readonly threadId: string;
  private last = -1; // the latest event in the transcript; below 0 until the messages are loaded
  private early: Logged[] = [];
  private reads = 0;
  private ended = false;
  private unfollow: (() => void) | null = null;

  constructor(projectId: string, threadId: string) {
    super();
    this.projectId = projectId;
    this.threadId = threadId;
  }

  /** follow shows the thread, live. Call it again when a missing thread may exist, or after a failure. */
  follow(socket: Socket) {
    this.unfollow?.();
    this.unfollow = socket.follow(this.threadId, {
      from: () => {
        this.exists = true;
        void this.read();
      },
      events: (list) => this.live(list),
      gone: () => {
        this.exists = false;
        this.complete = true;
        this.changed();
      },
    });
  }

  end() {
    this.ended = true;
    this.unfollow?.();
  }

  private async read() {
    const turn = ++this.reads;
    this.last = -1;
    this.running = false;
    for (let failures = 0; !this.ended && turn === this.reads; failures++) {
      try {
        const [thread, project] = [this.threadId, this.projectId].map(encodeURIComponent);
        const got = await ask<ThreadMessages>(`/api/v1/threads/${thread}/messages?projectId=${project}`);
        if (turn !== this.reads) return;
        this.transcript.start(got.messages, got.state);
        this.last = got.lastEventId;
        this.problem = "";
        break;
      } catch (error) {
        if (!lost(error)) {
          this.problem = say(error);
          break;
        }
        await new Promise((done) => setTimeout(done, Math.min(4_000, 250 * 2 ** failures)));
      }
    }
    if (turn !== this.reads) return; // a newer read has started
    this.complete = true;
    if (this.last >= 0) this.add(this.early.splice(0));
    this.changed();
  }

  private live(list: Logged[]) {
    if (this.last < 0) this.early.push(...list);
    else this.add(list);
  }

  private add(list: Logged[]) {
    for (const logged of list) {
      const { id, event } = logged;
      const stands = id === this.last && event.type.endsWith("_SNAPSHOT"); // replaces removed events
      if (id <= this.last && !stands) continue;
      this.last = id;
      this.transcript.push(logged);
      if (event.type === "RUN_STARTED") {
        this.running = true;
        this.runId = event.runId ?? "";
      }
      if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") {
        this.running = false;
        this.spans++;
      }
    }
    if (list.length > 0) this.changed();
  }
}
