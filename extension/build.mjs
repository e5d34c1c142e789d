// Bundles the extension into one file: `node extension/build.mjs [--release]`.
import { build } from "esbuild";

const release = process.argv.includes("--release");
await build({
  entryPoints: ["extension/src/main.ts"],
  outfile: "extension/dist/main.js",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20", // the Node of the oldest VS Code in `engines`
  external: ["vscode"],
  minify: release,
  sourcemap: release ? false : "linked",
  logLevel: "warning",
});
