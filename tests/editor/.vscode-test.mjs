import path from "node:path";
import { defineConfig } from "@vscode/test-cli";

const here = import.meta.dirname;
const extension = path.resolve(here, "../..");
const stubs = ["python", "python-envs"].map((name) => path.resolve(here, "host/stubs", name));

/** One editor for all its `files`, with the results in `editor-<label>.xml`. */
function suite(label, { files, workspace, env }) {
  return {
    label,
    files: files.map((name) => `host/${name}.test.cjs`),
    extensionDevelopmentPath: extension,
    workspaceFolder: path.resolve(here, workspace),
    useInstallation: { fromPath: path.resolve(here, "harness/code") },
    skipExtensionDependencies: true,
    env,
    mocha: {
      ui: "bdd",
      timeout: 180_000, // a deadline for a busy machine; the slowest needs 30 seconds on a quiet one
      reporter: path.resolve(here, "harness/junit_reporter.cjs"),
      reporterOptions: {
        output: path.resolve(process.env.FUSELIGHT_RESULTS, `editor-${label}.xml`),
        suiteName: label,
      },
    },
  };
}

export default defineConfig([
  suite("trusted", {
    files: ["folders", "runs", "kernels"],
    workspace: "host/workspace/two.code-workspace",
    env: { FUSELIGHT_BESIDE: stubs.join(path.delimiter) },
  }),
  suite("untrusted", {
    files: ["untrusted"],
    workspace: "host/workspace/first",
    env: { FUSELIGHT_UNTRUSTED: "1" },
  }),
]);
