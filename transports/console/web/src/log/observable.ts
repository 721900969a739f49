/** Observable notifies its watchers of changes, at most once per animation frame. */
export class Observable {
  version = 0;
  private watchers = new Set<() => void>();
  private due = false;

  readonly subscribe = (watcher: () => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly snapshot = () => this.version;

  /** changed notifies the watchers, or waits some milliseconds if more changes are expected. */
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
