import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

// The server that `npm run dev` shows the console of.
const server = process.env.BATON_URL ?? "http://127.0.0.1:8080";
const outDir = process.env.OUT_DIR ?? join(import.meta.dirname, "../dist");

// pack compresses what was built: the program holds and sends it like that.
const pack: Plugin = {
  name: "pack",
  apply: "build",
  closeBundle() {
    for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const file = join(entry.parentPath, entry.name);
      writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
      rmSync(file);
    }
  },
};

export default defineConfig({
  plugins: [pack],
  esbuild: { jsx: "automatic", legalComments: "none" },
  build: {
    outDir,
    emptyOutDir: true,
    assetsInlineLimit: 0, // what is inlined would need a wider policy
    cssCodeSplit: false, // what is loaded later, after a server was away, has its styles
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
    target: "es2023",
    rollupOptions: {
      onwarn: (warning, warn) => warning.code === "MODULE_LEVEL_DIRECTIVE" || warn(warning), // "use client" means nothing here
    },
  },
  server: { proxy: { "/api": { target: server, ws: true }, "/openapi.json": server, "/readyz": server } },
});
