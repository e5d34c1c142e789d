import path from "node:path";
import { defineConfig } from "@vscode/test-cli";

export default defineConfig({
  files: "host/**/*.test.cjs",
  extensionDevelopmentPath: path.resolve(import.meta.dirname, "../.."),
  workspaceFolder: path.resolve(import.meta.dirname, "host/workspace"),
  useInstallation: { fromPath: path.resolve(import.meta.dirname, "harness/code") },
  skipExtensionDependencies: true,
  mocha: { ui: "bdd", timeout: 45_000 },
});
