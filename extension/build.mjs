// Bundles the extension, and the window with graphs, into one file each: `node extension/build.mjs [--release]`.
// The licences of what is bundled are collected beside them, for they travel with it.
import fs from "node:fs";
import path from "node:path";
import { build } from "esbuild";

const release = process.argv.includes("--release");
const common = {
  bundle: true,
  minify: release,
  sourcemap: release ? false : "linked",
  legalComments: "none", // whole licences are collected below
  logLevel: "warning",
  metafile: true,
};
const made = await Promise.all([
  build({
    ...common,
    entryPoints: ["extension/src/main.ts"],
    outfile: "extension/dist/main.js",
    platform: "node",
    format: "cjs",
    target: "node20", // the Node of the oldest VS Code in `engines`
    external: ["vscode"],
  }),
  build({
    ...common,
    entryPoints: ["extension/webview/main.ts"],
    outfile: "extension/dist/graphs.js",
    platform: "browser",
    format: "iife",
    target: "chrome134", // the browser of that VS Code
  }),
]);

const bundled = made
  .flatMap(({ metafile }) => Object.keys(metafile.inputs))
  .flatMap((file) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []);
fs.writeFileSync(
  "extension/dist/LICENSES.txt",
  [...withDependencies(bundled)]
    .toSorted()
    .map(licenceOf)
    .join(`\n${"-".repeat(80)}\n\n`),
);

/** A package may have others in it that it was bundled from. */
function withDependencies(folders, found = new Set()) {
  for (const folder of folders.filter((one) => !found.has(one))) {
    found.add(folder);
    const names = Object.keys(manifestOf(folder).dependencies ?? {});
    const own = names.map((name) => path.posix.join(folder, "node_modules", name));
    const shared = names.map((name) => `node_modules/${name}`);
    withDependencies(
      names.map((_, index) => (fs.existsSync(own[index]) ? own[index] : shared[index])),
      found,
    );
  }
  return found;
}

function licenceOf(folder) {
  const { name, version, license } = manifestOf(folder);
  const file = fs.readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (file === undefined) {
    throw new Error(`${name} has no licence to take along`);
  }
  return `${name} ${version} (${license})\n\n${fs.readFileSync(path.join(folder, file), "utf8").trim()}\n`;
}

function manifestOf(folder) {
  return JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
}
