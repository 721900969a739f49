const most = 4_000; // ms between two looks for a server

/**
 * part loads a part of the console when it is first shown: where nobody answers, as soon as somebody does. One that an update has taken
 * away comes with the page, loaded anew.
 */
export function part<T>(load: () => Promise<T>): () => Promise<T> {
  return () =>
    load().catch(async () => {
      await answers();
      return load().catch(() => {
        location.reload();
        return new Promise<never>(() => {}); // the page goes
      });
    });
}

async function answers() {
  for (let failures = 0; !(await ready()); failures++) {
    await new Promise((done) => setTimeout(done, Math.min(most, 250 * 2 ** failures)));
  }
}

const ready = () => fetch("/readyz").then((r) => r.ok, () => false);
