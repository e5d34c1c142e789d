import { defineConfig } from "@playwright/test";
import { tools } from "./harness/code_server.mjs";

export default defineConfig({
  testDir: "visual",
  outputDir: `${tools.artifacts}/playwright`,
  workers: 1, // an editor and a browser take more than a gigabyte
  // No retries: the ring runs failed files again at its end, and names a test that passes only then.
  timeout: 400_000, // deadlines for a busy machine; a quiet one needs a minute
  expect: { timeout: 90_000 },
  reporter: [
    ["list", { printSteps: true }],
    ["junit", { outputFile: `${tools.results}/editor-visual.xml` }],
  ],
  use: {
    actionTimeout: 60_000,
    viewport: { width: 1400, height: 900 },
    launchOptions: {
      executablePath: tools.browser,
      args: [...tools.browserFlags, "--disable-gpu", "--disable-background-networking", "--no-first-run"],
    },
    // A trace takes a quarter of the processor's time. A failure keeps a screenshot and logs without it.
    trace: process.env.FUSELIGHT_TRACE ? "retain-on-failure" : "off",
  },
});
