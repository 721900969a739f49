/** Observable tells its watchers that it has changed, at most once for each frame that is painted. */
export class Observable {
  version = 0;
  private watchers = new Set<() => void>();
  private due = false;

  readonly subscribe = (watcher: () => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly snapshot = () => this.version;

  /** changed tells the watchers, or does so after some milliseconds when more is about to change. */
  protected changed(after = 0) {
    if (this.due) return;
    this.due = true;
    const tell = () => {
      this.due = false;
      this.version++;
      for (const w of this.watchers) w();
    };
    if (document.hidden) setTimeout(tell, 500);
    else if (after > 0) setTimeout(tell, after);
    else requestAnimationFrame(tell);
  }
}
