// Bundles each page as one script with esbuild.
import { build } from "esbuild";

export const bundle = async (...entryPoints) => {
  const { outputFiles } = await build({
    entryPoints,
    bundle: true,
    splitting: true,
    write: false,
    format: "esm",
    outdir: "/",
    jsx: "automatic",
    target: "es2022",
    minify: true,
    define: { "process.env.NODE_ENV": '"production"' },
    loader: { ".woff2": "empty", ".woff": "empty", ".ttf": "empty" },
    logLevel: "error",
  });
  return new Map(outputFiles.map(({ path, contents }) => [path, Buffer.from(contents)]));
};
