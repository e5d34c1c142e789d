/**
 * The editor of one test: a new workspace and a new profile, with the packaged extension.
 *
 * Invariant: a failure keeps a screenshot and the server's log in `artifacts/editor`; nothing else outlives a test.
 */

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test as base } from "@playwright/test";
import { install, startCodeServer, tools } from "./code_server.mjs";
import { workbench } from "./workbench.mjs";

export const root = path.resolve(import.meta.dirname, "../../..");

export const test = base.extend({
  /** The folder of extensions of all editors of a process; the package is installed there once. */
  extensions: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads which fixtures it needs out of the pattern
    async ({}, use) => {
      const installed = install(path.join(root, "fuselight.vsix"));
      await use(installed);
      fs.rmSync(installed, { recursive: true, force: true });
    },
    { scope: "worker" },
  ],
  /** `session({ files, links, settings, trusted })` opens the first of `files` in a workspace that holds them all. */
  session: async ({ page, extensions }, use, info) => {
    const undo = [];
    await use(async ({ files, links = {}, settings = {}, trusted = true }) => {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), "fuselight-workspace-"));
      undo.push(() => fs.rmSync(folder, { recursive: true, force: true }));
      for (const [name, text] of Object.entries(files)) {
        fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
        fs.writeFileSync(path.join(folder, name), text);
      }
      for (const [name, target] of Object.entries(links)) {
        fs.symlinkSync(target, path.join(folder, name));
      }
      const all = { "fuselight.interpreter": tools.python, ...settings };
      const server = await startCodeServer({ extensions, settings: all, trusted });
      undo.push(() => server.stop());
      const file = path.join(folder, Object.keys(files)[0]);
      const view = workbench(page);
      await view.open(server.url(folder, [file]));
      undo.push(() => (info.errors.length > 0 ? keep(info, server, page) : undefined));
      return { view, folder, file, server };
    });
    for (const step of undo.reverse()) {
      await step();
    }
  },
});

async function keep(info, server, page) {
  const name = info.titlePath
    .slice(1)
    .join(" ")
    .replace(/[^a-z0-9]+/gi, "-");
  const target = path.join(tools.artifacts, "failures", name);
  fs.mkdirSync(target, { recursive: true });
  await page.screenshot({ path: path.join(target, "page.png") });
  fs.writeFileSync(path.join(target, "server.log"), server.log());
  fs.cpSync(path.join(server.home, "user-data/logs"), path.join(target, "logs"), {
    recursive: true,
    force: true,
  });
}
