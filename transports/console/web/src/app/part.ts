const most = 4_000; // ms between two attempts to reach the server

/**
 * part loads a part of the console when it is first shown, and retries until the server answers. If an update has removed the part,
 * it reloads the page.
 */
export function part<T>(load: () => Promise<T>): () => Promise<T> {
  return () =>
    load().catch(async () => {
      await answers();
      return load().catch(() => {
        location.reload();
        return new Promise<never>(() => {}); // the page reloads
      });
    });
}

async function answers() {
  for (let failures = 0; !(await ready()); failures++) {
    await new Promise((done) => setTimeout(done, Math.min(most, 250 * 2 ** failures)));
  }
}

const ready = () => fetch("/readyz").then((r) => r.ok, () => false);
