// The real program on a free port, for scripts that start it themselves.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

// serve starts baton with settings in an empty folder, and returns its URL and a function that stops it.
export async function serve(baton, settings = {}) {
  const dir = await mkdtemp(join(tmpdir(), "baton-"));
  await writeFile(join(dir, "baton.yaml"), JSON.stringify(settings)); // JSON is YAML
  const port = await free();
  const url = `http://127.0.0.1:${port}`;
  const server = spawn(baton, ["serve", "--listen", `127.0.0.1:${port}`], { cwd: dir, stdio: "ignore" });
  const gone = new Promise((done) => server.once("exit", done));
  const stop = async () => {
    server.kill();
    await gone;
    await rm(dir, { recursive: true });
  };
  while (!(await fetch(`${url}/readyz`).then((r) => r.ok, () => false))) {
    if (server.exitCode !== null) throw new Error(`${baton} has ended`);
    await new Promise((done) => setTimeout(done, 100));
  }
  return { url, pid: server.pid, stop };
}

const free = () =>
  new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
