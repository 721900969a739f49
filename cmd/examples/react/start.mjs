// Serves the page on http://127.0.0.1:3000 and starts Baton, which allows requests from that origin.
import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { context } from "esbuild";

const folder = dirname(fileURLToPath(import.meta.url));
const baton = process.env.BATON || "http://127.0.0.1:8080"; // one that runs elsewhere, if it is set
const page = await context({
  absWorkingDir: folder,
  entryPoints: ["app.jsx"],
  bundle: true,
  outfile: "app.js",
  jsx: "automatic",
  define: { BATON: JSON.stringify(baton), "process.env.NODE_ENV": '"production"' },
});
const { port } = await page.serve({ host: "127.0.0.1", port: Number(process.env.PORT || 3000), servedir: folder });
console.log(`the page is at http://127.0.0.1:${port}`);

if (!process.env.BATON) {
  const env = { ...process.env, BATON_ORIGINS: `http://127.0.0.1:${port}` };
  const server = spawn("go", ["run", "../../baton", "serve"], { cwd: folder, stdio: "inherit", env });
  server.on("exit", code => process.exit(code ?? 0));
  process.on("SIGINT", () => {}); // the server has got it too, and ends first
}
