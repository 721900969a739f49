import assert from "node:assert/strict";

// until polls with a timeout that only a hang reaches.
export const until = async (what, check) => {
  for (const end = Date.now() + 600_000; Date.now() < end; await new Promise((wake) => setTimeout(wake, 10))) {
    if (await check()) return;
  }
  assert.fail(`not ${what} after ten minutes`);
};
