// Bundles the extension, and the pages of graphs, of a benchmark, of a search and of a job, a script and a style sheet each: `node extension/build.mjs [--release]`.
// LICENSES.txt next to them has the licenses of the bundled packages.
import fs from "node:fs";
import path from "node:path";
import { build } from "esbuild";

const release = process.argv.includes("--release");
const common = {
  bundle: true,
  minify: release,
  sourcemap: release ? false : "linked",
  legalComments: "none", // whole licenses are collected below
  logLevel: "warning",
  metafile: true,
};
const page = {
  platform: "browser",
  format: "iife",
  target: "chrome134", // the browser of the oldest VS Code in `engines`
};
const made = await Promise.all([
  build({
    ...common,
    entryPoints: ["extension/src/main.ts"],
    outfile: "extension/dist/main.js",
    platform: "node",
    format: "cjs",
    target: "node20", // its Node
    external: ["vscode"],
  }),
  build({
    ...common,
    ...page,
    entryPoints: entriesOf("graphs", "graphs"),
    outdir: "extension/dist",
    banner: bannerOf("node_modules/@dagrejs/dagre"),
  }),
  build({
    ...common,
    ...page,
    // Together: the charts that all three draw with are read once.
    entryPoints: ["bench", "tune", "job"].flatMap((name) => entriesOf(name, "measured")),
    outdir: "extension/dist",
    banner: bannerOf("node_modules/echarts"),
  }),
]);

const bundled = made
  .flatMap(({ metafile }) => Object.keys(metafile.inputs))
  .flatMap((file) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []);
fs.writeFileSync("extension/dist/LICENSES.txt", licensesOf(bundled));

/** The script and the style sheet of a page, under its name. */
function entriesOf(name, styles) {
  return [`${name}/main.ts`, `${styles}/page.css`].map((file) => ({
    in: `extension/webview/${file}`,
    out: name,
  }));
}

/** A page that is a file of its own has its script without LICENSES.txt. */
function bannerOf(folder) {
  return { js: `/*\n${licensesOf([folder]).replaceAll("*/", "* /")}*/` };
}

function licensesOf(folders) {
  return [...withDependencies(folders)]
    .toSorted()
    .map(licenseOf)
    .join(`\n${"-".repeat(80)}\n\n`);
}

/** A package may contain the packages that it was bundled from. */
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

function licenseOf(folder) {
  const { name, version, license } = manifestOf(folder);
  const files = fs.readdirSync(folder);
  const file = files.find((one) => /^licen[cs]e/i.test(one));
  if (file === undefined) {
    throw new Error(`${name} has no license file`);
  }
  const notice = files.filter((one) => one === "NOTICE"); // the Apache license requires it
  // A browser reads an inline script with line feeds alone, and its hash is of what was read.
  const read = (one) => fs.readFileSync(path.join(folder, one), "utf8").replaceAll("\r\n", "\n").trim();
  const texts = [file, ...notice].map(read);
  return [`${name} ${version} (${license})`, ...texts].join("\n\n").concat("\n");
}

function manifestOf(folder) {
  return JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
}
